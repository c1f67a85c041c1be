"""Batch of environments that are stepped together."""

import contextlib
import itertools
import math
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools import errors, nested, spaces
from agents.tools.batch import infos, members, observations
from agents.tools.batch.env_slice import at_most
from agents.tools.nested import Nest
from agents.tools.workers import block, turns
from agents.tools.workers.external_process import ExternalProcess
from agents.tools.workers.replies import Replies
from agents.tools.workers.restarts import Restarts


class BatchEnv:
    """Combines environments into a batch.

    Worker processes step in parallel: the batch sends the request to every process before it waits
    for any. Within a process, environments step one after another.

    An environment whose episode ends is reset within the same step. `observ` is the observation to
    act on next, and `next_observ` the true successor, from whose value returns bootstrap. They
    differ only there. Resets take indices, as the episodes of a batch end at different times.

    A process that died, hangs, raised or broke the contract of environments can be restarted. The
    step is lost for its environments, see `agents.tools.Transition`, and new episodes begin.

    Attributes:
        infos: Numbers that the members take from infos, see their `log_info`.
        lost: Mask of the environments for which the last call of `step` was lost.
        seconds: Time spent on steps and resets so far.

    Args:
        envs: Environments, `ExternalProcess`, `EnvSlice` and `VectorSlice` objects, in order.
        blocking: Wait for each process before sending to the next, for debugging or when
            environments compete for a resource.
        timeout: Maximum seconds of a step or a reset.
        restarts: Budget for restarts of processes, by default none.
    """

    def __init__(
        self,
        envs: Sequence[gym.Env | members.Member],
        blocking: bool = False,
        timeout: float = 60.0,
        restarts: Restarts | None = None,
    ):
        self.seconds = 0.0
        self.lost = np.zeros(0, bool)
        self._blocking = blocking
        self._timeout = timeout
        self._restarts = restarts or Restarts()
        self._cancelled = threading.Event()
        self._pid = os.getpid()
        self._members = members.of(envs)
        self._places = [
            (number, position)
            for number, member in enumerate(self._members)
            for position in range(len(member))
        ]
        ends = [*itertools.accumulate(map(len, self._members), initial=0)]
        self._rows = [slice(*pair) for pair in itertools.pairwise(ends)]
        try:
            self._blocks = [self._attach(place) for place in range(len(ends) - 1)]
            spaces.require_equal(zip(ends, self._members, strict=False))
            self._connect()
        except BaseException:
            self.close()
            raise
        self.observation_space = self._members[0].observation_space
        self.action_space = self._members[0].action_space
        self._actions_shape = (len(self), *spaces.shape(self.action_space))
        self._choices = spaces.count(self.action_space)
        self.infos = infos.Means(self._members[0].log_info, len(self))
        self._reply = block.reply_layout(self.observation_space)
        # What was last to be acted on, if it may be needed.
        self._observ = observations.zeros(self.observation_space, len(self))

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> members.EnvView:
        """Return an environment, for its attributes and methods."""
        number, position = self._places[index]
        return members.EnvView(self._members[number], position)

    def __getattr__(self, name: str) -> Any:
        """Forward attribute access to the first environment."""
        if name.startswith('_'):
            raise AttributeError(f'BatchEnv has no attribute {name!r}.')
        return getattr(self[0], name)

    def step(self, actions: Nest) -> tuple:
        """Step all environments, and reset those whose episode ends.

        Args:
            actions: Array with one action per environment.

        Returns:
            Tuple of observ, reward, terminated, truncated, next_observ.
        """
        reply = self._unpack(self.step_packed(actions))
        names = 'observ', 'reward', 'terminated', 'truncated', 'next_observ'
        self.lost = reply['lost']
        return tuple(reply[name] for name in names)

    def reset(self, indices: Sequence[int] | None = None) -> Any:
        """Reset environments by index, by default all; returns their observations."""
        everywhere = np.arange(len(self)) if indices is None else indices
        mask = np.zeros(len(self), bool)
        mask[everywhere] = True
        observ = self._unpack(self.reset_packed(mask))['observ']
        return nested.map(lambda leaf: leaf[everywhere], observ)

    def call(self, name: str, *args: Any, **kwargs: Any) -> list:
        """Call a method of every environment, in parallel across processes."""
        results: dict[int, Any] = {}
        for turn in range(max(map(len, self._members))):
            promises = {
                index: self[index].call(name, *args, blocking=False, **kwargs)
                for index, (_, position) in enumerate(self._places)
                if position == turn
            }
            results.update({i: promise() for i, promise in promises.items()})
        return [results[index] for index in range(len(self))]

    def info_names(self) -> list[str]:
        """Return the names of numbers in infos that are not reported."""
        found = [member.info_names() for member in self._members]
        return sorted(set(itertools.chain(*found)))

    def cancel(self) -> None:
        """Make the current or next step raise `Cancelled`.

        The only method that may be called from another thread.
        """
        self._cancelled.set()

    def close(self) -> None:
        """Close all environments and end their processes.

        Environments of this process that do not return within the timeout are abandoned.
        """
        self._restarts = Restarts()  # From now on, nothing is started anew.
        with contextlib.ExitStack() as stack:  # One may raise an error.
            for member in self._members:
                stack.callback(self._close, member)
                if isinstance(member, ExternalProcess):
                    member.begin_close()

    def step_packed(self, actions: Nest, reply: list[np.ndarray] | None = None) -> list[np.ndarray]:
        """Step like `step`, with the reply as matrices of `block.reply_layout`.

        Args:
            actions: Array with one action per environment.
            reply: Matrices to write to, by default new ones.
        """
        actions = self._checked(actions)
        for rows, target in zip(self._rows, self._actions, strict=True):
            target[:] = actions[rows]
        return self._exchange(turns.STEP, reply)

    def reset_packed(
        self, mask: np.ndarray, reply: list[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """Reset where the mask is true; others keep their last reply."""
        for rows, target in zip(self._rows, self._resets, strict=True):
            target[:] = mask[rows]
        return self._exchange(turns.RESET, reply, ~mask)

    def _exchange(
        self, request: int, reply: list[np.ndarray] | None, lost: np.ndarray | bool = True
    ) -> list[np.ndarray]:
        """Let all members answer a request.

        Args:
            request: Kind of the request.
            reply: Matrices to write to, by default new ones.
            lost: Mask of the environments whose step is lost if their process is restarted.
        """
        started = time.perf_counter()
        try:
            self._require_not_cancelled()
            anew = self._ask_processes(request) if self._rounds else []
            for member in self._slices:
                member.step() if request == turns.STEP else member.reset()
            if self._slices and os.getpid() != self._pid:
                _end_copy()
        except errors.EnvError:
            # Another one in close would hide what went wrong first.
            with contextlib.suppress(errors.EnvError):
                self.close()
            raise
        # A copy in any case, since the blocks are written to by the next step.
        reply = reply or self._empty()
        for matrix, parts in zip(reply, self._parts, strict=True):
            np.concatenate(parts, out=matrix)
        if anew:
            self._mark_lost(reply, anew, lost)
        if self.infos.names and request == turns.STEP:
            self._add_infos(reply)
        if self._restarts.budget:
            observ = self._reply.views(reply)['observ']
            self._observ = nested.map(np.copy, observ)
        self.seconds += time.perf_counter() - started
        return reply

    def _close(self, member: members.Member) -> None:
        if isinstance(member, ExternalProcess):
            member.close()
            return
        try:
            with at_most(self._timeout):
                member.close()
        except errors.TooLate:
            print(
                f'The environments did not close within {self._timeout:g} '
                'seconds; they are left as they are.',
                file=sys.stderr,
            )

    def _ask_processes(self, request: int) -> list[int]:
        """Let all processes answer a request, and restart those that fail.

        Returns:
            Places of the restarted members.
        """
        failed = [
            process
            for replies in self._rounds
            for process in replies.exchange(
                request, self._timeout, self._cancelled.is_set, self._restarts.spend
            )
        ]
        anew = [self._start_anew(process) for process in failed]
        if anew:
            self._connect()
        return anew

    def _connect(self) -> None:
        """Cache what every step needs of the current members."""
        external = [m for m in self._members if isinstance(m, ExternalProcess)]
        self._slices = [m for m in self._members if isinstance(m, members.Local)]
        # The processes that work at the same time, round by round.
        rounds = [[process] for process in external]
        if external and not self._blocking:
            rounds = [external]
        self._rounds = [Replies(processes) for processes in rounds]
        # Where actions are written to, and what each matrix is made of.
        self._actions = [member.request['action'] for member in self._blocks]
        self._resets = [member.request['reset'] for member in self._blocks]
        self._parts = [*zip(*[b.matrices for b in self._blocks], strict=True)]
        self._infos = [member.infos for member in self._blocks]

    def _attach(self, place: int) -> block.Block:
        """Set up the memory of a member, which has been constructed by then."""
        member = self._members[place]
        if isinstance(member, members.Local):
            found = member.observation_space, member.action_space
            numbers = len(member.log_info)
            own = block.Block(*found, len(member), infos=numbers)
            member.attach(own)
            return own
        while True:
            try:
                return member.attach()
            except errors.WorkerDied as error:  # Others would happen again.
                self._restarts.spend(error)
                member = member.anew(self._restarts.count)
                self._members[place] = member

    def _start_anew(self, failed: ExternalProcess) -> int:
        """Replace a failed process by a new one, and reset it.

        Returns:
            Place of the member.
        """
        place, process = self._members.index(failed), failed
        while True:
            process = process.anew(self._restarts.count)
            self._members[place] = process
            try:
                self._blocks[place] = process.attach(self._cancelled.is_set)
                spaces.require_equal([(0, self), (process.first, process)])
                self._blocks[place].request['reset'][:] = 1.0
                process.request(turns.RESET)
                Replies([process]).wait(self._timeout, self._cancelled.is_set)
                return place
            except errors.EnvError as error:
                self._restarts.spend(error)
                process.close()

    def _mark_lost(
        self, matrices: list[np.ndarray], anew: list[int], lost: np.ndarray | bool
    ) -> None:
        """Mark lost steps, whose successor is the observation that was acted on."""
        rows = np.zeros(len(self), bool)
        for place in anew:
            rows[self._rows[place]] = True
        rows &= lost
        reply = self._reply.views(matrices)
        reply['truncated'][rows] = reply['lost'][rows] = 1.0

        def restore(leaf: np.ndarray, last: np.ndarray) -> None:
            leaf[rows] = last[rows]

        nested.map(restore, reply['next_observ'], self._observ)

    def _add_infos(self, matrices: list[np.ndarray]) -> None:
        reply = self._reply.views(matrices)
        done = (reply['terminated'] > 0.5) | (reply['truncated'] > 0.5)
        whole = done & (reply['lost'] < 0.5)
        self.infos.add(np.concatenate(self._infos), whole)

    def _empty(self) -> list[np.ndarray]:
        """Allocate matrices for a reply."""
        return [np.empty((len(self), width), kind) for kind, width in self._reply.groups]

    def _unpack(self, matrices: list[np.ndarray]) -> dict:
        reply = self._reply.views(matrices)
        for name in ('terminated', 'truncated', 'begins', 'lost'):
            reply[name] = reply[name] > 0.5
        return reply

    def _checked(self, actions: Nest) -> np.ndarray:
        actions = np.asarray(actions)
        if actions.shape != self._actions_shape:
            raise errors.EnvError(
                f'Expected actions of shape {self._actions_shape} for '
                f'{len(self)} environments with {self.action_space}, got the '
                f'shape {actions.shape}.'
            )
        self._require_values(actions)
        return actions

    def _require_values(self, actions: np.ndarray) -> None:
        """Refuse actions that are not in the space."""
        plain = self._choices is None and actions.dtype == np.float32
        # A sum of squares is soon told, and finite only if all of them are.
        if plain and math.isfinite(np.vdot(actions, actions)):
            return
        with np.errstate(over='ignore', invalid='ignore'):
            if self._choices is None:
                valid = np.isfinite(actions.astype(np.float32, copy=False))
            else:
                valid = (actions >= 0) & (actions < self._choices)
                valid &= actions % 1 == 0
        if not valid.all():
            index = int(np.argwhere(~valid)[0, 0])
            raise errors.EnvError(
                f'The action {actions[index]} for environment {index} is not a '
                f'value of {self.action_space}; no environment was stepped.'
            )

    def _require_not_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise errors.Cancelled('Stepping the environments was cancelled.')


def _end_copy() -> None:
    """Exit from a fork of this process, which would train and save as well."""
    print(
        'An environment has called os.fork, and both processes returned from '
        'it. The child has to end by os._exit, and is ended here.',
        file=sys.stderr,
        flush=True,
    )
    os._exit(1)
