// `npm run bench -- fairness`: how fairly the scheduler shares the machine among ten kinds of tenants that all want more than
// there is, and two that want little: Jain's index of the work they get, and how long the modest ones wait.

import { print, report } from './harness.ts';
import { demanding, jainIndex, machine, modest, simulateTenants } from './tenants.ts';

const results = simulateTenants([...demanding, ...modest], machine);
for (const { name, work, finished, stepsWaited, preemptions } of results) {
  const longest = Math.max(0, ...stepsWaited);
  print(
    `${name}: ${(work / 1000).toFixed(1)} s of work, ${finished} finished, ${preemptions} preempted,` +
      ` waited ${longest} steps at most`,
  );
}
const tenants = Object.fromEntries(results.map(({ name, work }) => [name, Math.round(work)]));
const jain = jainIndex(results.slice(0, demanding.length).map(({ work }) => work));
report('fairness', { jain: Math.round(1000 * jain) / 1000, tenants });
