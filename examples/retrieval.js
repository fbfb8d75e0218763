// Retrieval: finds what belongs to a question by the nearness of their vectors.
// node examples/retrieval.js [model.gguf]; without a model, with the small one that is part of this repository.
//
// That one was made to chat. Its vectors tell kinds of requests apart, and little else; so each line of its model card
// is found by a request that it stands for. With a model made for embeddings, give the lines themselves.

import { readFileSync } from 'node:fs';
import { serve } from 'chairlift';

const card = readFileSync(new URL('../models/README.md', import.meta.url), 'utf8');
const abilities = card.split('\n').flatMap((line) => (line.startsWith('- ') ? [line.slice(2)] : []));
const lineWith = (words) => abilities.find((line) => line.includes(words));

const entries = [
  { request: 'Hello, who are you?', passage: lineWith('greetings') },
  { request: 'What is 347 + 586?', passage: lineWith('addition') },
  { request: 'Tell me a story about a fox named Milo in the forest.', passage: lineWith('stories') },
  { request: 'What is the capital of Norway?', passage: lineWith('capitals') },
  { request: 'List three animals.', passage: lineWith('lists, counting') },
  { request: 'Write "Good morning" in upper case.', passage: lineWith('rewriting') },
  {
    request: 'Extract name and age as JSON: Meet Nora. Nora is 34 years old.',
    passage: lineWith('extraction'),
  },
];

async function embed(url, input) {
  const response = await fetch(`${url}/v1/embeddings`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ input }),
  });
  if (!response.ok) throw new Error(await response.text());
  const { data } = /** @type {any} */ (await response.json());
  return data.map(({ embedding }) => embedding);
}

/** The cosine of their angle, as both have length 1. */
const similarity = (a, b) => a.reduce((sum, value, at) => sum + value * b[at], 0);

const server = await serve({
  port: 0,
  database: ':memory:',
  logLevel: 'error',
  model: process.argv.slice(2),
});
const vectors = await embed(
  server.url,
  entries.map(({ request }) => request),
);
for (const question of [
  'How much is 12 plus 30?',
  'Please tell a story about an owl.',
  'Which city is the capital of Peru?',
  'Name four colours.',
]) {
  const [asked] = await embed(server.url, [question]);
  const ranked = entries
    .map((entry, at) => ({ ...entry, score: similarity(asked, vectors[at]) }))
    .sort((a, b) => b.score - a.score);
  console.log(question);
  for (const { score, passage } of ranked.slice(0, 3)) console.log(`  ${score.toFixed(2)} ${passage}`);
  console.log();
}
await server.close();
