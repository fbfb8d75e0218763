// How fairly the scheduler shares the machine among ten kinds of tenants that all want more than there is, with two beside them
// that want little: Jain's index of the work they get, and how long those that want little wait. Ends in one JSON line.

import { jainIndex, simulateTenants, type Tenant } from './tenants.ts';

export const demanding: readonly Tenant[] = [
  { name: 'long prompts, short answers', promptTokens: 2000, answerTokens: 10, concurrency: 8 },
  { name: 'short prompts, long answers', promptTokens: 20, answerTokens: 400, concurrency: 16 },
  { name: 'chats', promptTokens: 300, answerTokens: 120, concurrency: 12 },
  { name: 'flood', promptTokens: 60, answerTokens: 20, concurrency: 400 },
  { name: 'bursts', promptTokens: 200, answerTokens: 60, burst: { requests: 120, everyMs: 60_000 } },
  { name: 'embeddings', promptTokens: 400, answerTokens: 1, concurrency: 64 },
  { name: 'batch', promptTokens: 500, answerTokens: 80, concurrency: 1000 },
  { name: 'conversations', promptTokens: 150, answerTokens: 100, concurrency: 16, conversation: true },
  { name: 'huge prompts', promptTokens: 4000, answerTokens: 40, concurrency: 3 },
  { name: 'classification', promptTokens: 900, answerTokens: 2, concurrency: 24 },
];

export const modest: readonly Tenant[] = [
  { name: 'single requests', promptTokens: 100, answerTokens: 20, burst: { requests: 1, everyMs: 7_000 } },
  { name: 'rare long ones', promptTokens: 1500, answerTokens: 30, burst: { requests: 1, everyMs: 31_000 } },
];

export const machine = {
  blockCount: 2500,
  maxBatchSize: 24,
  budget: { kind: 'adaptive', targetStepMs: 200, maxStepTokens: 1024 },
  warmUpMs: 120_000,
  measuredMs: 600_000,
} as const;

if (process.argv[1]?.endsWith('fairness.js')) {
  const results = simulateTenants([...demanding, ...modest], machine);
  for (const { name, work, finished, stepsWaited, preemptions } of results) {
    const longest = Math.max(0, ...stepsWaited);
    console.log(
      `${name}: ${(work / 1000).toFixed(1)} s of work, ${finished} finished, ${preemptions} preempted,` +
        ` waited ${longest} steps at most`,
    );
  }
  const tenants = Object.fromEntries(results.map(({ name, work }) => [name, Math.round(work)]));
  const jain = jainIndex(results.slice(0, demanding.length).map(({ work }) => work));
  console.log(JSON.stringify({ benchmark: 'fairness', jain: Math.round(1000 * jain) / 1000, tenants }));
}
