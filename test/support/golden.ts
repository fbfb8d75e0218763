// The shared reference results in one shape, and what a backend makes of them: all cases of a model run as
// one batch, over blocks scattered through the cache.

import { existsSync, readFileSync } from 'node:fs';
import { BLOCK_TOKENS, type CreateBackend } from '../../src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../src/compute/batch.ts';
import { ownSlot } from '../../src/compute/batch-states.ts';
import { openSpec } from '../../src/model/open-spec.ts';
import { cosine } from './backend-properties.ts';
import { embeddedModelPath } from './embedded-model.ts';
import { testdata } from './testdata.ts';

/** A token and its logit. */
type Logit = readonly [token: number, value: number];

export interface GoldenCase {
  readonly ids: readonly number[];
  /** The eight largest logits after the last id, largest first. */
  readonly top8: readonly Logit[];
  /** Further logits after the last id. */
  readonly sparse: readonly Logit[];
  /** The likeliest token after each id. */
  readonly midTop1: readonly number[];
  /** The ids that greedy decoding adds. */
  readonly greedy: readonly number[];
}

export interface GoldenModel {
  readonly name: string;
  readonly path: string;
  readonly cases: readonly GoldenCase[];
  /** Set where the weights are coarser than the ones the results were computed from. */
  readonly approximate?: boolean;
  /** The path of an adapter that all cases use. */
  readonly adapter?: string;
  /** Positions served at most, where rotary factors depend on them. */
  readonly contextLength?: number;
}

interface StoredCase {
  readonly ids: readonly number[];
  readonly last_top8?: readonly Logit[];
  readonly last_logits_top8?: readonly Logit[];
  readonly last_logits_first16?: readonly number[];
  readonly last_logits_every_17?: readonly number[];
  readonly last_logits_every_37?: readonly number[];
  readonly mid_top1?: readonly number[];
  readonly greedy_24?: readonly number[];
  readonly greedy_48?: readonly number[];
  /** Starts with the input ids. */
  readonly greedy_ids?: readonly number[];
}

export function goldenModels(): GoldenModel[] {
  return [...trainedModels(), ...architectureModels(), ...familyModels(), ...quantizedModels()];
}

/** Not a folder's twin in another format, which matters to no backend. */
export function isOwnModel({ name }: GoldenModel): boolean {
  return !name.endsWith('/model-bf16.gguf');
}

/** The cosine of the angle between what is known of a case's last logits and what was computed; undefined where little is. */
export function likeness({ top8, sparse }: GoldenCase, computed: Float32Array): number | undefined {
  const known = new Map([...sparse, ...top8]);
  if (known.size < 16) return undefined;
  const own = Float32Array.from(known.keys(), (token) => computed[token] as number);
  return cosine(Float32Array.from(known.values()), own);
}

/** The model that ships with the project, and what PyTorch computes with it. */
export function embeddedGolden(): GoldenModel {
  const { completions } = JSON.parse(
    readFileSync(embeddedModelPath.replace('.gguf', '.golden.json'), 'utf8'),
  ) as { completions: { promptIds: number[]; topLogits: Logit[]; greedyIds: number[] }[] };
  const cases = completions.map(({ promptIds, topLogits, greedyIds }) =>
    goldenCase({ ids: promptIds, last_top8: topLogits, greedy_24: greedyIds }),
  );
  return { name: 'the embedded model', path: embeddedModelPath, cases };
}

function trainedModels(): GoldenModel[] {
  const stories = stored<{ prompt_ids: number[]; greedy_ids: number[] }>('stories260K');
  const prompt = stories.prompt_ids.length;
  const storyCase = { ids: stories.prompt_ids, greedy_ids: stories.greedy_ids.slice(0, prompt + 64) };
  const tiny = casesOf('tinystories-656k');
  return [
    model('stories260K/stories260K.gguf', [goldenCase(storyCase)]),
    model('tinystories-656k', tiny),
    { ...model('tinystories-656k-bf16-sharded', withoutIds(tiny)), approximate: true },
    model('tinystories-656k-mlx-4bit', casesOf('tinystories-656k-mlx-4bit')),
    model('tinystories-656k-mlx-8bit', casesOf('tinystories-656k-mlx-8bit')),
  ];
}

/** Coarser weights may turn a near tie, after which decoding goes another way. */
function withoutIds(cases: readonly GoldenCase[]): GoldenCase[] {
  return cases.map((one) => ({ ...one, midTop1: [], greedy: [] }));
}

function architectureModels(): GoldenModel[] {
  const names = ['llama', 'mistral', 'qwen2', 'qwen3', 'gemma3', 'phi3'];
  const ggufs = ['llama', 'qwen2', 'qwen3'];
  return [
    ...names.map((name) => model(`arch/${name}`, casesOf(`arch/${name}`))),
    ...ggufs.map((name) => model(`arch/${name}/model-bf16.gguf`, casesOf(`arch/${name}`))),
  ];
}

/** Folders of the shared families that this project runs. */
const families = [
  'mixtral',
  'qwen3_moe',
  'gpt_oss',
  'qwen3_next',
  'qwen3_5',
  'qwen3_5_moe',
  'lfm2',
  'lfm2_moe',
  'granitemoehybrid',
  'gemma2',
  'gemma3',
  'olmo2',
  'olmo3',
  'granite',
  'granitemoe',
  'smollm3',
  'glm4',
  'cohere2',
  'starcoder2',
  'stablelm',
  'seed_oss',
  'ernie4_5',
  'hunyuan_v1_dense',
  'exaone4',
  'ministral',
  'ministral3',
  'phi3',
  'qwen2_moe',
  'olmoe',
  'glm4_moe',
  'ernie4_5_moe',
  'llama4',
  'gemma4',
  'gemma3n',
  'deepseek_v2',
  'deepseek_v3',
];

/** As folders, and as the GGUF files that some are there as, too. */
function familyModels(): GoldenModel[] {
  return families.flatMap((family) => {
    const folder = `families/${family}`;
    const file = `${folder}/model-bf16.gguf`;
    // A GGUF file cannot say that yarn's ramp is not rounded.
    const results = family === 'gpt_oss' ? 'golden-yarn-truncated.json' : 'golden.json';
    const gguf = existsSync(testdata(file)) ? [model(file, casesOf(folder, results))] : [];
    // Its results are of lengths that the short factors serve.
    const context = family === 'phi3' ? { contextLength: 256 } : {};
    return [{ ...model(folder, casesOf(folder)), ...context }, ...gguf];
  });
}

function quantizedModels(): GoldenModel[] {
  const { files } = stored<{ files: Record<string, { cases: StoredCase[] }> }>('quants');
  return Object.entries(files).map(([name, { cases }]) =>
    model(`quants/${name}.gguf`, cases.map(goldenCase)),
  );
}

interface StoredMlxCase {
  readonly ids: readonly number[];
  readonly last_logits_every_K: number;
  readonly last_logits: readonly number[];
  readonly top5: readonly Logit[];
  readonly argmax: readonly number[];
  readonly greedy: readonly number[];
  /** By how much each of the greedy ids won. */
  readonly greedy_gap: readonly number[];
}

const NEAR_TIE = 0.02;

/** A folder converted by mlx-lm, and what mlx-lm computes with it. */
export function mlxModel(folder: string): GoldenModel {
  const { cases } = stored<{ cases: StoredMlxCase[] }>(`mlx/${folder}`, 'golden-mlx.json');
  return model(`mlx/${folder}`, cases.map(mlxCase));
}

/** An adapter that mlx-lm trains, with its model. */
export function mlxAdapter(name: string): GoldenModel {
  const folder = `mlx/adapters/${name}`;
  const { base, cases } = stored<{ base: string; cases: StoredMlxCase[] }>(folder, 'golden-mlx.json');
  return { ...model(`${folder}/${base}`, cases.map(mlxCase)), name, adapter: testdata(folder) };
}

function mlxCase(one: StoredMlxCase): GoldenCase {
  const tie = one.greedy_gap.findIndex((gap) => gap < NEAR_TIE);
  return {
    ids: one.ids,
    top8: one.top5,
    sparse: every(one.last_logits_every_K, one.last_logits),
    midTop1: one.argmax,
    greedy: one.greedy.slice(0, tie < 0 ? undefined : tie),
  };
}

function model(name: string, cases: readonly GoldenCase[]): GoldenModel {
  return { name, path: testdata(name), cases };
}

function stored<Content>(folder: string, file = 'golden.json'): Content {
  return JSON.parse(readFileSync(testdata(folder, file), 'utf8'));
}

function casesOf(folder: string, file?: string): GoldenCase[] {
  return stored<{ cases: StoredCase[] }>(folder, file).cases.map(goldenCase);
}

function goldenCase(one: StoredCase): GoldenCase {
  return {
    ids: one.ids,
    top8: one.last_top8 ?? one.last_logits_top8 ?? [],
    sparse: [
      ...every(1, one.last_logits_first16),
      ...every(17, one.last_logits_every_17),
      ...every(37, one.last_logits_every_37),
    ],
    midTop1: one.mid_top1 ?? [],
    greedy: one.greedy_24 ?? one.greedy_48 ?? one.greedy_ids?.slice(one.ids.length) ?? [],
  };
}

function every(stride: number, logits: readonly number[] = []): Logit[] {
  return logits.map((value, index) => [index * stride, value]);
}

interface GoldenOutcome {
  readonly lastLogits: Float32Array;
  readonly midTop1: readonly number[];
  readonly greedy: readonly number[];
}

/** One row of logits for each that a sequence wants. */
type Step = (sequences: readonly BatchSequence[]) => Promise<Float32Array[]>;

/** One outcome for each case of a model. */
export function runGolden(create: CreateBackend, golden: GoldenModel): Promise<GoldenOutcome[]> {
  const tables = scatteredTables(golden.cases.map(({ ids, greedy }) => ids.length + greedy.length));
  return withModel(create, golden, tables, (step) => runCases(golden.cases, tables, step));
}

/** The logits after each case's last id; ids are computed N at a time. */
export function lastLogits(
  create: CreateBackend,
  golden: GoldenModel,
  chunkTokens: number,
): Promise<Float32Array[]> {
  const { cases } = golden;
  const tables = scatteredTables(cases.map(({ ids }) => ids.length));
  return withModel(create, golden, tables, async (step) => {
    const last: Float32Array[] = [];
    for (let start = 0; ; start += chunkTokens) {
      const chunks = cases.map(({ ids }) => ids.slice(start, start + chunkTokens));
      const running = [...chunks.entries()].filter(([, tokens]) => tokens.length > 0);
      if (running.length === 0) return last;
      const rows = await step(
        running.map(([index, tokens]) => ({
          tokens,
          start,
          blocks: tables[index] ?? [],
          wantLogits: 'last',
        })),
      );
      for (const [place, [index]] of running.entries()) last[index] = rows[place] as Float32Array;
    }
  });
}

/** Each case remembers in the slot that has the number of its first block. */
function withMemory(sequence: BatchSequence): BatchSequence {
  return { ...sequence, state: ownSlot(sequence, sequence.blocks[0] as number) };
}

async function withModel<Result>(
  create: CreateBackend,
  golden: GoldenModel,
  tables: readonly (readonly number[])[],
  use: (step: Step) => Promise<Result>,
): Promise<Result> {
  const { contextLength, adapter } = golden;
  const adapters = adapter === undefined ? [] : [{ name: 'own', path: adapter }];
  const { spec, weights } = openSpec(golden.path, {
    adapters,
    ...(contextLength === undefined ? {} : { contextLength }),
  });
  try {
    const blockCount = tables.flat().length;
    const backend = await create(spec, weights, { blockCount, stateSlots: blockCount });
    const remembers = spec.recurrentStates.length > 0;
    try {
      return await use(async (sequences) => {
        const adapted = adapter === undefined ? sequences : sequences.map((one) => ({ ...one, adapter: 0 }));
        const { logits } = await backend.step(buildBatch(remembers ? adapted.map(withMemory) : adapted));
        return Array.from({ length: logits.length / spec.vocabSize }, (_, row) =>
          logits.slice(row * spec.vocabSize, (row + 1) * spec.vocabSize),
        );
      });
    } finally {
      backend.close();
    }
  } finally {
    weights.close();
  }
}

/** Hands blocks out in turn, last block first, so that no table is contiguous or ascending. */
function scatteredTables(lengths: readonly number[]): number[][] {
  const wanted = lengths.map((length) => Math.ceil(length / BLOCK_TOKENS));
  const tables: number[][] = lengths.map(() => []);
  let next = wanted.reduce((sum, blocks) => sum + blocks, 0);
  while (next > 0) {
    for (const [index, table] of tables.entries()) {
      if (table.length < (wanted[index] as number)) table.push(--next);
    }
  }
  return tables;
}

async function runCases(
  cases: readonly GoldenCase[],
  tables: readonly (readonly number[])[],
  step: Step,
): Promise<GoldenOutcome[]> {
  const prefill = await step(
    cases.map(({ ids }, index) => ({
      tokens: ids,
      start: 0,
      blocks: tables[index] ?? [],
      wantLogits: 'all',
    })),
  );
  const rows = prefill.values();
  const running = cases.map(({ ids, greedy }, index) => {
    const own = ids.map(() => rows.next().value as Float32Array);
    const midTop1 = own.map(likeliest);
    return {
      ids,
      wanted: greedy.length,
      blocks: tables[index] ?? [],
      lastLogits: own[own.length - 1] as Float32Array,
      midTop1,
      greedy: midTop1.slice(-1),
    };
  });
  for (;;) {
    const active = running.filter(({ greedy, wanted }) => greedy.length < wanted);
    if (active.length === 0) break;
    const next = await step(
      active.map(({ ids, greedy, blocks }) => ({
        tokens: greedy.slice(-1),
        start: ids.length + greedy.length - 1,
        blocks,
        wantLogits: 'last',
      })),
    );
    for (const [index, one] of active.entries()) one.greedy.push(likeliest(next[index] as Float32Array));
  }
  return running.map(({ lastLogits, midTop1, greedy, wanted }) => ({
    lastLogits,
    midTop1,
    greedy: greedy.slice(0, wanted),
  }));
}

export function likeliest(logits: Float32Array): number {
  let best = 0;
  for (const [token, value] of logits.entries()) if (value > (logits[best] as number)) best = token;
  return best;
}

/** The largest difference to the expected logits, each relative to the logit's size or 1, the larger. */
export function largestDifference(logits: Float32Array, { top8, sparse }: GoldenCase): number {
  return Math.max(
    0,
    ...[...top8, ...sparse].map(
      ([token, value]) => Math.abs((logits[token] as number) - value) / Math.max(Math.abs(value), 1),
    ),
  );
}
