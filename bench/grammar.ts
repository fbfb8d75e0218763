// `npm run bench -- grammar [TOKENIZER.gguf]`: what grammars cost 16 streams over a vocabulary of 128 K tokens, beside a
// step of a model of 1.2 billion weights. Each stream has a schema of its own and writes a document of it. `first` is the
// first answer of each schema, when nothing is known yet; `again` the second. Ends in one JSON line.

import { availableParallelism } from 'node:os';
import { dummyModel } from '#src/bench/dummy-model.ts';
import { median } from '#src/bench/statistics.ts';
import type { Backend } from '#src/compute/backend.ts';
import { buildBatch } from '#src/compute/batch.ts';
import { createCpuBackend } from '#src/compute/cpu/backend.ts';
import { LocalEngine } from '#src/engine/local-engine.ts';
import { rulesOf } from '#src/grammar/assemble.ts';
import { compileRules } from '#src/grammar/compile.ts';
import { SharedMasks } from '#src/grammar/masks.ts';
import { Grammar, Matcher } from '#src/grammar/matcher.ts';
import type { GrammarTables } from '#src/grammar/tables.ts';
import { longestTokens, vocabularyTables } from '#src/grammar/vocabulary.ts';
import { buildSpec } from '#src/model/build-spec.ts';
import { type SamplingParameters, validateSampling } from '#src/sampling/parameters.ts';
import { seedFrom } from '#src/sampling/random.ts';
import { openAddon, print, report } from './harness.ts';
import { largeVocabulary } from './large-vocabulary.ts';

const STREAMS = 16;
const HISTORY = 200;
const BLOCKS = 8;
const STEPS = 15;
const GOAL = 0.02;
const ROUNDS = 4;
const TOKENS = 24;

function workOf(stream: number): { schema: unknown; text: string } {
  const name = (field: string) => `${field}_${String.fromCharCode(97 + stream)}`;
  const schema = {
    type: 'object',
    properties: {
      [name('title')]: { type: 'string' },
      [name('summary')]: { type: 'string', maxLength: 400 },
      [name('year')]: { type: 'integer', minimum: 1900, maximum: 2100 },
      [name('kind')]: { enum: ['book', 'film', 'song', 'play'] },
      [name('tags')]: { type: 'array', items: { type: 'string', minLength: 1 }, maxItems: 8 },
      [name('when')]: { type: 'string', format: 'date' },
      [name('people')]: {
        type: 'array',
        items: {
          type: 'object',
          properties: { name: { type: 'string' }, born: { type: ['integer', 'null'] } },
          required: ['name', 'born'],
          additionalProperties: false,
        },
      },
    },
    required: ['title', 'summary', 'year', 'kind', 'tags', 'people'].map(name),
    additionalProperties: false,
  };
  const document = {
    [name('title')]: 'The lift at the end of the valley',
    [name('summary')]:
      'Two friends build a lift of wood and rope, and find out who in the village is afraid of heights.',
    [name('year')]: 1950 + stream,
    [name('kind')]: 'film',
    [name('tags')]: ['mountains', 'friends', 'wood', 'snow'],
    [name('when')]: '1987-02-14',
    [name('people')]: [
      { name: 'Anna Berg', born: 1931 },
      { name: 'Jonas Lind', born: null },
    ],
  };
  return { schema, text: JSON.stringify(document, null, stream % 2 === 0 ? 1 : 0) };
}

/** Tokens a second of 16 free streams with 16 other free ones, and with 16 constrained ones. */
async function besideFree(): Promise<{ free: number; constrained: number }> {
  const speeds: Record<'free' | 'constrained', number[]> = { free: [], constrained: [] };
  for (let round = 0; round < ROUNDS; round++) {
    for (const kind of round % 2 === 0
      ? (['free', 'constrained'] as const)
      : (['constrained', 'free'] as const)) {
      speeds[kind].push(await freeSpeed(kind === 'constrained'));
    }
  }
  return { free: median(speeds.free), constrained: median(speeds.constrained) };
}

async function freeSpeed(withGrammars: boolean): Promise<number> {
  const engine = new LocalEngine(lent, {
    blockCount: backend.blockCount,
    budget: { kind: 'fixed', maxStepTokens: 512 },
    vocabSize: spec.vocabSize,
    contextLength: spec.contextLength,
    endIds: [],
    speculation: false,
  });
  engine.setVocabulary(vocabulary);
  const started = performance.now();
  const run = async (stream: number, tables?: GrammarTables) => {
    const request = {
      id: `${stream}`,
      prompt: Int32Array.from({ length: 8 }, (_, place) => 100 + place + 16 * stream),
      parameters: { ...parametersOf(stream), maxTokens: TOKENS },
      priority: 1 as const,
      salt: '',
      account: '',
      enqueuedMs: 0,
      ...(tables === undefined ? {} : { grammar: { tables, continues: true } }),
    };
    for await (const event of engine.submit(request)) {
      if (event.kind !== 'finish') continue;
      if (event.error !== undefined) throw new Error(event.error.message);
      return performance.now() - started;
    }
    throw new Error('an answer did not end');
  };
  const neighbours = works.map(({ grammar }, n) =>
    run(STREAMS + n, withGrammars ? grammar.tables : undefined),
  );
  const times = await Promise.all(Array.from({ length: STREAMS }, (_, n) => run(n)));
  await Promise.all(neighbours);
  await engine.close();
  return (STREAMS * TOKENS * 1000) / Math.max(...times);
}

function parametersOf(seed: number): SamplingParameters {
  const validated = validateSampling(
    { topP: 0.95, ignoreEos: true },
    { vocabSize: spec.vocabSize, freshSeed: seedFrom(BigInt(seed)) },
  );
  if (!validated.ok) throw new Error(validated.problem);
  return validated.parameters;
}

const addon = openAddon();
const own = process.argv[2];
const vocabulary = vocabularyTables(largeVocabulary(own));
const shared = new SharedMasks(2000);
const compileMs: number[] = [];
const works = Array.from({ length: STREAMS }, (_, stream) => {
  const { schema, text } = workOf(stream);
  const started = performance.now();
  const tables = compileRules(rulesOf({ kind: 'schema', schema }, () => undefined).rules);
  compileMs.push(performance.now() - started);
  return {
    grammar: new Grammar(tables, vocabulary, shared),
    tokens: longestTokens(new TextEncoder().encode(text), vocabulary),
  };
});
print(
  `${vocabulary.size} tokens, ${vocabulary.nodeByte.length} nodes; ${STREAMS} schemas compiled in ${median(compileMs).toFixed(0)} ms each (median)`,
);

function walk(): { times: number[]; masks: Uint32Array[] } {
  const matchers = works.map(({ grammar }) => new Matcher(grammar, true));
  const times: number[] = [];
  const masks: Uint32Array[] = [];
  for (let at = 0; works.some(({ tokens }) => at < tokens.length); at++) {
    const started = performance.now();
    for (const [stream, { tokens }] of works.entries()) {
      const token = tokens[at];
      if (token === undefined) continue;
      const mask = matchers[stream]?.mask() as Uint32Array;
      masks[stream] = mask;
      if (matchers[stream]?.accept(token) !== true)
        throw new Error(`stream ${stream} left its schema at ${at}`);
    }
    times.push(performance.now() - started);
  }
  return { times, masks };
}
const first = walk();
const again = walk();

const threads = availableParallelism();
const files = dummyModel('llama-3.2-1b', 'Q4_0');
const spec = buildSpec(files);
const backend = await createCpuBackend(addon, spec, files.weights, {
  blockCount: BLOCKS * STREAMS,
  threads,
});
/** An engine closes its backend; this one is needed again. */
const lent: Backend = {
  name: backend.name,
  blockCount: backend.blockCount,
  step: (batch, rows) => backend.step(batch, rows),
  sampleRows: (logits, vocabSize, rows) => backend.sampleRows(logits, vocabSize, rows),
  releaseBlocks: (blocks) => backend.releaseBlocks(blocks),
  close: () => {},
};

const blocksOf = (stream: number) => Array.from({ length: BLOCKS }, (_, block) => stream * BLOCKS + block);
for (let stream = 0; stream < STREAMS; stream++) {
  const tokens = Array.from({ length: HISTORY }, (_, place) => (place * 7919 + stream) % spec.vocabSize);
  await backend.step(buildBatch([{ tokens, start: 0, blocks: blocksOf(stream), wantLogits: 'none' }]));
}
const row = (choice: number, mask?: Uint32Array) => ({
  parameters: parametersOf(1),
  position: HISTORY,
  choice,
  forbidden: [],
  mask,
});
const words = Math.ceil(spec.vocabSize / 32);
const fitted = again.masks.map((mask) => {
  const sized = new Uint32Array(words).fill(0xffffffff);
  sized.set(mask.subarray(0, words));
  return sized;
});
const stepTimes: number[] = [];
const samplingTimes: { free: number[]; masked: number[] } = { free: [], masked: [] };
for (let trial = 0; trial < STEPS; trial++) {
  const batch = buildBatch(
    Array.from({ length: STREAMS }, (_, stream) => ({
      tokens: [100 + stream],
      start: HISTORY,
      blocks: blocksOf(stream),
      wantLogits: 'last' as const,
    })),
  );
  const started = performance.now();
  const { logits } = await backend.step(batch);
  stepTimes.push(performance.now() - started);
  for (const kind of trial % 2 === 0 ? (['free', 'masked'] as const) : (['masked', 'free'] as const)) {
    const rows = Array.from({ length: STREAMS }, (_, stream) =>
      row(stream, kind === 'masked' ? fitted[stream] : undefined),
    );
    const sampling = performance.now();
    backend.sampleRows(logits, spec.vocabSize, rows);
    samplingTimes[kind].push(performance.now() - sampling);
  }
}
const beside = await besideFree();
backend.close();

const stepMs = median(stepTimes) + median(samplingTimes.free);
const mean = (times: readonly number[]) => times.reduce((sum, one) => sum + one, 0) / times.length;
const maskedSamplingMs = median(samplingTimes.masked) - median(samplingTimes.free);
const result = {
  streams: STREAMS,
  vocabulary: vocabulary.size,
  compileMs: median(compileMs),
  stepMs,
  firstMs: mean(first.times),
  firstWorstMs: Math.max(...first.times),
  againMs: mean(again.times),
  againWorstMs: Math.max(...again.times),
  maskedSamplingMs,
  besideFree: beside,
  firstShare: mean(first.times) / stepMs,
  againShare: mean(again.times) / stepMs,
  goal: GOAL,
};
print(`a step of ${files.path} with ${STREAMS} streams, sampled freely: ${stepMs.toFixed(1)} ms`);
print(
  `masks of ${STREAMS} streams, first answers: ${result.firstMs.toFixed(2)} ms a step, at worst ${result.firstWorstMs.toFixed(1)}; ${(100 * result.firstShare).toFixed(2)} % of a step`,
);
print(
  `again: ${result.againMs.toFixed(3)} ms, at worst ${result.againWorstMs.toFixed(2)}; ${(100 * result.againShare).toFixed(2)} %`,
);
print(`sampling with masks takes ${maskedSamplingMs.toFixed(2)} ms more than without`);
print(
  `16 free streams: ${beside.free.toFixed(1)} tokens/s beside 16 free ones, ${beside.constrained.toFixed(1)} beside 16 constrained ones`,
);
report('grammar', result);
