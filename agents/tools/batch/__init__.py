"""A batch of single environments that is stepped as one."""
