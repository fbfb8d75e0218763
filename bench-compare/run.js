// `npm run compare -- NAME [arguments]`: runs a comparison with other engines.

import { runNamed } from '../bench/run-named.js';

/** @type {import('../bench/run-named.js').NamedPrograms} */
const comparisons = {
  speed: {
    file: 'bench-compare/speed.js',
    says: 'tokens a second of the same GGUF file, prompts and lengths',
  },
  serve: {
    file: 'bench-compare/serve.js',
    says: 'a server under load beside llama-server: first tokens, gaps, whole answers',
  },
  images: {
    file: 'bench-compare/images.js',
    says: 'the first token about a picture, and about the same picture again, beside llama-server',
  },
  restore: {
    file: 'bench-compare/restore.js',
    says: 'a long prompt after a restart, beside the slots that llama-server saves and restores',
  },
  edit: { file: 'bench-compare/edit.js', says: 'answers that mostly repeat what was given' },
  accuracy: {
    file: 'bench-compare/accuracy.js',
    says: 'how far next-token distributions are from exact ones',
  },
  'second-opinion': {
    file: 'bench-compare/second-opinion.js',
    says: 'whether llama.cpp gives the same tokens the same log-probabilities',
  },
};

await runNamed('npm run compare --', comparisons, process.argv.slice(2));
