// Plants each bug into a copy of the compiled program and measures how long the simulation takes to find it.

import { spawn } from 'node:child_process';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type PlantedBug, plantedBugs } from './planted-bugs.ts';
import type { Summary } from './run.ts';

const SHOWN = 110;

interface Found extends Pick<Summary, 'cpuSeconds' | 'wallSeconds' | 'simulatedHours'> {
  readonly bug: string;
  readonly seed: number | undefined;
  readonly violation: string | undefined;
}

/** Whether all are found within so many seconds of a processor each. So many are looked for at once. */
export async function plantBugs(root: string, seed: number, seconds: number, jobs: number): Promise<boolean> {
  const waiting = [...plantedBugs];
  const table: Found[] = [];
  const job = async () => {
    for (let bug = waiting.shift(); bug !== undefined; bug = waiting.shift()) {
      const found = await look(root, bug, seed, seconds);
      table.push(found);
      console.log(lineOf(found));
    }
  };
  await Promise.all(Array.from({ length: jobs }, job));
  console.log(JSON.stringify({ planted: table }));
  return table.every(({ violation }) => violation !== undefined);
}

async function look(root: string, bug: PlantedBug, seed: number, seconds: number): Promise<Found> {
  const { failures, cpuSeconds, wallSeconds, simulatedHours } = await run(root, bug, seed, seconds);
  const violation = failures[0]?.violations[0]?.slice(0, SHOWN);
  return { bug: bug.name, seed: failures[0]?.seed, violation, cpuSeconds, wallSeconds, simulatedHours };
}

function lineOf({ bug, violation, cpuSeconds, wallSeconds, simulatedHours }: Found): string {
  const effort = `${wallSeconds.toFixed(1)} s (${cpuSeconds.toFixed(1)} s of a processor, ${simulatedHours.toFixed(2)} h simulated)`;
  return violation === undefined
    ? `not found in ${effort}: ${bug}`
    : `found in ${effort}: ${bug}\n    ${violation}`;
}

async function run(root: string, bug: PlantedBug, seed: number, seconds: number): Promise<Summary> {
  // Each has one of its own.
  const folder = join(root, 'build', `simulation-planted-${plantedBugs.indexOf(bug)}`);
  rmSync(folder, { recursive: true, force: true });
  cpSync(join(root, 'build', 'simulation'), folder, { recursive: true });
  try {
    const path = join(folder, `${bug.file}.js`);
    writeFileSync(path, planted(readFileSync(path, 'utf8'), bug));
    const program = join(folder, 'test', 'simulation', 'run.js');
    const words = ['--seed', String(seed), '--seconds', String(seconds), '--processor', '--first'];
    const code = `const { simulate } = await import(${JSON.stringify(program)}); await simulate(${JSON.stringify(words)}, ${JSON.stringify(root)});`;
    return await summaryOf(code);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Compared without the white space that compiling changes. */
export function planted(text: string, { name, find, replace }: PlantedBug): string {
  const words = find.split(/\s+/).map((word) => word.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const all = [...text.matchAll(new RegExp(words.join('\\s+'), 'g'))];
  const [only] = all;
  if (only === undefined || all.length > 1)
    throw new Error(`${name}: there are ${all.length} places to plant it`);
  return text.slice(0, only.index) + replace + text.slice(only.index + only[0].length);
}

function summaryOf(code: string): Promise<Summary> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.setEncoding('utf8');
  child.stdout.on('data', (part: string) => {
    text += part;
  });
  return new Promise((resolve, reject) => {
    child.on('close', () => {
      const last = text.trimEnd().split('\n').at(-1) ?? '';
      if (last.startsWith('{')) resolve(JSON.parse(last) as Summary);
      else reject(new Error(`a run ended without its summary: ${text.slice(-500)}`));
    });
  });
}
