"""Serves a policy that `agents export` has written, over HTTP.

    agents export --logdir logdir/pendulum --outfile policy.npz
    python serve.py policy.npz 8000
    curl localhost:8000 -d '{"observ": [1.0, 0.0, 0.1]}'

Needs NumPy, the policy, and `run_policy.py` beside it. It keeps nothing: where
actions are masked, `mask` is sent as well, and a `state` that comes with an
action goes with the next observation of the episode.
"""

import http.server
import json
import pathlib
import sys

file, port = pathlib.Path(sys.argv[1]), int(sys.argv[2])
sys.path.insert(0, str(file.parent.absolute()))
import run_policy  # noqa: E402

policy = run_policy.Policy(file)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        try:
            asked = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
            action, state = policy.step(**asked)
            code, answer = 200, {'action': action.tolist()}
            if state is not None:
                answer['state'] = state.tolist()
        except (ValueError, TypeError, KeyError, IndexError) as error:
            code, answer = 400, {'error': f'{type(error).__name__}: {error}'}
        self.send_response(code)
        self.send_header('Content-Type', 'application/json')
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())


http.server.ThreadingHTTPServer(('localhost', port), Handler).serve_forever()
