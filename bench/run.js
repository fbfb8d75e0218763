// `npm run bench -- NAME [arguments]`: runs a benchmark of this folder. scripts/setup.js compiles those in TypeScript to
// build/bench, where `node build/bench/NAME.js` runs one without checking for changes.

import { runNamed } from './run-named.js';

const built = (name) => `build/bench/${name}.js`;
const onGpu = ['--gpu'];

/** @type {import('./run-named.js').NamedPrograms} */
const benchmarks = {
  steps: { file: built('steps'), says: 'forward passes of a model on the CPU' },
  context: { file: built('context'), says: 'decoding after 32 K tokens, and chunks of a long prompt' },
  tiers: {
    file: built('tiers'),
    says: 'a long prompt that comes back from memory, the machine’s memory and its disk',
  },
  'tier-steps': {
    file: built('tier-steps'),
    says: 'how evenly 16 streams decode next to heavy reading and writing of KV on disk',
  },
  kernels: {
    file: built('kernels'),
    says: 'matrix products of every kernel table',
    setup: ['--all-kernels'],
  },
  images: {
    file: built('images'),
    says: 'what pictures cost streams beside them, and a second question about one',
  },
  towers: { file: built('towers'), says: 'how long the CPU or an NVIDIA GPU takes to see' },
  'cuda-products': { file: built('cuda-products'), says: 'matrix products on an NVIDIA GPU' },
  'cuda-bits': { file: built('cuda-bits'), says: "whether an NVIDIA GPU gives the processor's bits" },
  'cuda-steps': { file: built('cuda-steps'), says: 'steps on an NVIDIA GPU, kernel by kernel if asked' },
  'cuda-sampling': { file: built('cuda-sampling'), says: 'sampling on an NVIDIA GPU, next to native code' },
  'gpu-steps': { file: built('gpu-steps'), says: 'how evenly steps come on a GPU', setup: onGpu },
  'gpu-load': {
    file: built('gpu-load'),
    says: "what loading onto a GPU takes of the machine's memory",
    setup: onGpu,
  },
  'gpu-kernels': { file: built('gpu-kernels'), says: 'matrix products on a GPU', setup: onGpu },
  'gpu-sampling': {
    file: built('gpu-sampling'),
    says: 'sampling on a GPU, next to native code',
    setup: onGpu,
  },
  sampling: { file: built('sampling'), says: 'sampling over a vocabulary of 128 K' },
  grammar: { file: built('grammar'), says: 'masks of constrained streams, next to a step' },
  schemas: {
    file: built('schemas'),
    says: 'a folder of schemas: how many compile, and how soon, beside llguidance and xgrammar',
  },
  speculation: {
    file: 'bench/speculation.js',
    says: 'what speculative decoding is worth, by kind of request',
  },
  scheduler: { file: built('scheduler'), says: 'planning a step' },
  fairness: { file: built('fairness'), says: 'how evenly ten kinds of tenants share a simulated machine' },
  'block-store': { file: built('block-store'), says: 'KV blocks on disk: writing, reading, opening' },
  overhead: { file: built('overhead'), says: 'what a step costs besides forward pass and sampling' },
  viewers: { file: built('viewers'), says: 'what viewers of the live page cost 16 streams' },
  tracing: { file: built('tracing'), says: 'what traces cost a server, in turns' },
  page: {
    file: built('page'),
    says: 'frames of the live view in a browser at 64 streams, and first paint',
    setup: ['--test-packages'],
  },
  nodes: { file: built('nodes'), says: 'a fleet of real processes without models: what an idle node costs' },
  routing: { file: built('routing'), says: 'what choosing a worker costs a gateway' },
  simulate: { file: built('simulate/simulate'), says: 'ways to choose a worker, on simulated fleets' },
  fleet: {
    file: 'bench/fleet.js',
    says: 'a fleet on this machine: cached prompts, and what it costs a stream',
  },
};

await runNamed('npm run bench --', benchmarks, process.argv.slice(2));
