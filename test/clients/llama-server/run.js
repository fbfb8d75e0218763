// Runs llama-server's own tests against this server: `node test/clients/llama-server/run.js FOLDER [pytest's options]`, where FOLDER is
// tools/server/tests of llama.cpp, PYTHON a Python with its requirements.txt, and LLAMA_SUITE_MODELS a folder of the models that they ask for.

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const [folder, ...options] = process.argv.slice(2);
if (folder === undefined) {
  console.error('usage: node test/clients/llama-server/run.js FOLDER [options of pytest]');
  process.exit(2);
}
const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const words = ['-m', 'pytest', '-p', 'suite_shim', '-q', '--tb=line', '-r', 'fE', ...options];
const { status } = spawnSync(process.env.PYTHON ?? 'python3', words, {
  cwd: folder,
  stdio: 'inherit',
  env: {
    ...process.env,
    LLAMA_SERVER_BIN_PATH: here('./llama-server.js'),
    PYTHONPATH: `${here('./')}:${process.env.PYTHONPATH ?? ''}`,
  },
});
process.exit(status ?? 1);
