// Peers in Python: each is a short program after the same prelude, which reads the job from standard input and writes the
// outcome as one line of JSON.

import { spawn, spawnSync } from 'node:child_process';
import { beforeEnd } from '../harness.js';

const MARK = 'OUTCOME ';

const prelude = `
import json, sys, time
setup = json.load(sys.stdin)
streams, threads, step_tokens = setup['streams'], setup['threads'], setup['stepTokens']

def now():
    return time.perf_counter() * 1000

class Timing:
    """When each token came, by stream."""
    def __init__(self):
        self.started = now()
        self.times = [[] for _ in range(streams)]
        self.tokens = [[] for _ in range(streams)]

    def add(self, stream, token, at):
        self.times[stream].append(at)
        self.tokens[stream].append(int(token))

def finish(version, build, timings):
    timings = [{'startedMs': t.started, 'tokenMs': t.times, 'tokens': t.tokens[0]} for t in timings]
    print('\\n${MARK}' + json.dumps(
        {'version': version, 'build': build, 'timings': timings, 'childCpuSeconds': time.process_time()}), flush=True)
`;

/**
 * Why a module cannot be used.
 * @param {string} python
 * @param {readonly string[]} modules
 * @param {string} packages what pip is to install
 */
export function missingModules(python, modules, packages) {
  const { status, error, stderr } = spawnSync(python, ['-c', `import ${modules.join(', ')}`], {
    encoding: 'utf8',
  });
  if (error !== undefined) return `${python} cannot be run (${error.message})`;
  if (status === 0) return undefined;
  const reason = stderr.trim().split('\n').at(-1);
  return `${python}: ${reason}; run ${python} -m pip install ${packages}, or give another --python`;
}

/**
 * @param {string} program defines nothing that the prelude does, and calls finish()
 * @param {import('../engine.js').Setup} setup
 * @param {object} work what the program reads beside the setup
 * @returns {Promise<import('../engine.js').Outcome>}
 */
export async function runPython(program, setup, work) {
  // In a group of its own it would outlive a trial that is killed.
  const child = spawn(setup.python, ['-c', prelude + program], { stdio: ['pipe', 'pipe', 'pipe'] });
  const forget = beforeEnd(() => child.kill('SIGKILL'));
  let output = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors += text;
  });
  child.stdin.end(JSON.stringify({ ...setup, ...work }));
  const ending = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve(signal ?? code));
  }).finally(forget);
  const line = output.split('\n').find((one) => one.startsWith(MARK));
  if (line === undefined) {
    const last = errors.trim().split('\n').slice(-3).join(' ');
    throw new Error(`the Python program ended with ${ending}: ${last}`);
  }
  return JSON.parse(line.slice(MARK.length));
}
