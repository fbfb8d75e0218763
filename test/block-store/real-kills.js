// `node test/block-store/real-kills.js [kills] [seed]`: two processes write to one store and are killed (SIGKILL) at random moments, and
// started again. In the end every block that was told as written must be there, whole. Ends in one JSON line. The sources must be compiled.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const kills = Number(process.argv[2] ?? 200);
let state = Number(process.argv[3] ?? 1);
const program = fileURLToPath(new URL('kill-program.js', import.meta.url));
const root = mkdtempSync(join(tmpdir(), 'chairlift-kills-'));
const folder = join(root, 'cache');

function random() {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 32;
}

/** Names that were told, of a process that lives until it is killed. */
async function live(name, lifeMs) {
  const child = spawn(process.execPath, [program, folder, name], { stdio: ['ignore', 'pipe', 'inherit'] });
  children.add(child.on('exit', () => children.delete(child)));
  const lines = [];
  let [opened, killed] = [false, false];
  const reader = createInterface({ input: child.stdout });
  reader.on('line', (line) => {
    if (!opened) setTimeout(() => (killed = child.kill('SIGKILL')), lifeMs);
    opened = true;
    lines.push(line);
  });
  const [[code]] = await Promise.all([once(child, 'exit'), once(reader, 'close')]);
  if (!killed) throw new Error(`${name} ended by itself with ${code}: ${lines.at(-1)}`);
  return lines;
}

async function check(names) {
  const child = spawn(process.execPath, [program, folder, 'check'], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(names.join('\n'));
  const lines = [];
  for await (const line of createInterface({ input: child.stdout })) lines.push(line);
  return lines;
}

/** Those that run. */
const children = new Set();
const told = [];
const problems = [];
const startMs = performance.now();
try {
  let done = 0;
  const lane = async (lane) => {
    while (done < kills) {
      const name = `life-${lane}-${done++}`;
      const lines = await live(name, random() ** 2 * 300);
      problems.push(...lines.filter((line) => /^(wrong|warning)/.test(line)));
      told.push(...lines.filter((line) => line.startsWith('life')));
    }
  };
  await Promise.all([lane(0), lane(1)]);
  // What is older may have gone for room.
  const recent = told.slice(-1500);
  const lines = await check(recent);
  problems.push(...lines.filter((line) => /^(wrong|missing|warning)/.test(line)));
  const numberOf = (word) => Number(lines.find((line) => line.startsWith(word))?.split(' ')[1]);
  const counts = { blocks: numberOf('opened'), whole: numberOf('whole'), damaged: numberOf('damaged') };
  const seconds = Math.round((performance.now() - startMs) / 1000);
  console.log(
    JSON.stringify({ kills: done, told: told.length, ...counts, seconds, problems: problems.slice(0, 10) }),
  );
  process.exitCode = problems.length > 0 ? 1 : 0;
} finally {
  for (const child of children) child.kill('SIGKILL');
  rmSync(root, { recursive: true, force: true });
}
