// `npm run compare -- speed` leaves nothing behind when it is told to end, whatever it has started.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { hasAddon } from '../support/native.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'chairlift-bench-compare-'));
const python = join(folder, 'python');
// Each Python program is one connection, which ends with it.
const door = createServer();

beforeAll(async () => {
  door.listen(0, '127.0.0.1');
  await once(door, 'listening');
  // Says that every module is there, and then computes for ever.
  const lines = [
    `#!${process.execPath}`,
    "if (process.argv[3].startsWith('import ')) process.exit(0);",
    `require('node:net').connect(${(door.address() as AddressInfo).port}, '127.0.0.1').resume();`,
  ];
  writeFileSync(python, lines.join('\n'));
  chmodSync(python, 0o755);
});

afterAll(() => {
  door.close();
  rmSync(folder, { recursive: true });
});

function start(command: string, words: readonly string[]): ChildProcess {
  const lengths = ['--streams', '1', '--prompt', '8', '--tokens', '4', '--threads', '1'];
  return spawn(command, [...words, '--model', embeddedModelPath, '--python', python, ...lengths], {
    cwd: root,
    // Without its own set-up: tests run on what is built already.
    env: { ...process.env, CHAIRLIFT_SETUP_UNDER_WAY: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

async function endsWhole(child: ChildProcess): Promise<void> {
  child.stdout?.resume();
  child.stderr?.resume();
  const [program] = (await once(door, 'connection')) as [Socket];
  const gone = once(
    program.resume().on('error', () => {}),
    'close',
  );
  // Its output closes once nobody is left that could write to it.
  const closed = once(child, 'close');
  child.kill('SIGTERM');
  await Promise.all([gone, closed]);
}

describe.skipIf(!hasAddon)('on SIGTERM (skipped where the addon is not built)', () => {
  it('the comparison ends, with its trial and the Python program in it', async () => {
    const words = ['run', 'compare', '--', 'speed', '--peers', 'llama-cpp-python'];
    await endsWhole(start('npm', [...words, '--prefill', '0', '--timeout', '50']));
  });

  it('a single trial ends, with its Python program', async () => {
    const trial = start(process.execPath, ['bench-compare/trial.js', '--engine', 'llama-cpp-python']);
    await endsWhole(trial);
    expect(trial.exitCode).toBe(143);
  });
});
