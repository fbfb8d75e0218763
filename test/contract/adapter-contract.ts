// Adapters from files to logits, against results of PEFT, of mlx-lm and of merged weights; and with each other in one step.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import type { CreateBackend } from '../../src/compute/backend.ts';
import {
  adapterTensors,
  formulaAdapters,
  haveBitsOfTheirOwn,
  haveOwnBits,
  largestDifference,
  mlxFormulaAdapters,
  stepLogits,
  stepsLogits,
  writeMlxAdapter,
  writePeftFolder,
} from '../support/formula-adapter.ts';
import { asGguf, type GgufForm } from '../support/formula-gguf.ts';
import { asFolder, formulaModel } from '../support/formula-model.ts';
import { asMlxFolder } from '../support/mlx-form.ts';
import {
  asDoraAdapter,
  asGgufAdapter,
  asMlxAdapter,
  asPeftAdapter,
  changeOf,
  mergedFolder,
} from '../support/published-adapters.ts';

interface Published {
  readonly name: string;
  /** Modules that adapters add to. */
  readonly modules: RegExp;
  readonly gguf?: GgufForm;
  /** Where GGUF files store queries and keys for rotary pairs. */
  readonly heads?: { readonly q: number; readonly k: number };
}

const mixture = { expert_count: 4, expert_used_count: 2, expert_feed_forward_length: 24 };

const published: readonly Published[] = [
  {
    name: 'llama with biases',
    modules: /(_proj|embed_tokens|lm_head)\.weight/,
    gguf: { architecture: 'llama', pairs: true, keys: { 'rope.freq_base': 5000 } },
    heads: { q: 4, k: 2 },
  },
  { name: 'phi3', modules: /_proj\.weight/, gguf: { architecture: 'phi3' } },
  {
    name: 'qwen3',
    modules: /layers\.1\..*[qkv]_proj\.weight/,
    gguf: { architecture: 'qwen3', keys: { 'attention.key_length': 16, 'attention.value_length': 16 } },
  },
  {
    name: 'qwen3 with experts',
    modules: /(_proj|mlp\.gate)\.weight/,
    gguf: {
      architecture: 'qwen3moe',
      keys: { 'attention.key_length': 16, 'attention.value_length': 16, ...mixture },
    },
  },
  {
    name: 'mixtral',
    modules: /(_proj|w[123]|moe\.gate)\.weight/,
    gguf: { architecture: 'llama', pairs: true, keys: { ...mixture, 'rope.freq_base': 1_000_000 } },
    heads: { q: 4, k: 2 },
  },
  {
    // One expert that all rows use, with a share for each row.
    name: 'qwen2 with experts in every other layer',
    modules: /layers\.1\..*(_proj|gate)\.weight/,
  },
];

export interface AdapterOptions {
  /** Larger where keys and values are kept in 16 bits. */
  readonly tolerance: number;
  /** Every format of an adapter with every format of a model; a software GPU is too slow for that. */
  readonly everyFormat: boolean;
}

/** To be called where a backend is described. */
export function adapterContract(create: CreateBackend, { tolerance, everyFormat }: AdapterOptions): void {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-adapters-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  it.each(formulaAdapters)('give the logits of PEFT: $model', async (adapter) => {
    const model = formulaModel(adapter.model);
    const path = writePeftFolder(join(folder, adapter.model), adapter.config, adapterTensors(adapter));
    const [logits] = await stepLogits(create, asFolder(model), [path], [{ tokens: model.ids, adapter: 0 }]);
    expect(largestDifference(adapter, logits as Float32Array)).toBeLessThan(tolerance);
  });

  it.each(mlxFormulaAdapters)('give the logits of mlx-lm: $model', async (adapter) => {
    const model = formulaModel(adapter.model);
    const path = writeMlxAdapter(join(folder, 'mlx-lm', adapter.model), adapter);
    const asked = [{ tokens: model.ids, adapter: 0 }];
    for (const opened of [asFolder(model), ...(everyFormat ? [asMlxFolder(model)] : [])]) {
      const [logits] = await stepLogits(create, opened, [path], asked);
      expect(largestDifference(adapter, logits as Float32Array)).toBeLessThan(tolerance);
    }
  });

  it.skipIf(!everyFormat).each(published)('add the same to folders and GGUF models: $name', async (one) => {
    const model = formulaModel(one.name);
    const change = changeOf(model, one.modules);
    const sequence = { tokens: model.ids, adapter: 0 };
    const plain = { tokens: model.ids };
    const [known] = await stepLogits(create, mergedFolder(model, change), [], [plain]);
    const [without] = await stepLogits(create, asFolder(model), [], [plain]);
    expect(distance(known, without)).toBeGreaterThan(100 * tolerance);
    const place = join(folder, 'published', one.name);
    const adapters = [asPeftAdapter(join(place, 'peft'), change), asMlxAdapter(join(place, 'mlx'), change)];
    const models = [asFolder(model), asMlxFolder(model)];
    if (one.gguf !== undefined) {
      adapters.push(asGgufAdapter(join(place, 'adapter.gguf'), change, one.heads));
      models.push(asGguf(model, one.gguf));
    }
    for (const opened of models) {
      for (const adapter of adapters) {
        const [computed] = await stepLogits(create, opened, [adapter], [sequence]);
        expect(distance(known, computed), `${adapter} of ${opened.path}`).toBeLessThan(tolerance);
      }
    }
  });

  it('have the bits that each has alone, of different ones in one step', () => haveOwnBits(create, folder));

  it('are used by the steps that ask for them alone, of steps of one shape after each other', async () => {
    const model = formulaModel('llama with biases');
    const path = asPeftAdapter(join(folder, 'turns'), changeOf(model, /(_proj|lm_head)\.weight/));
    const plain = [{ tokens: model.ids.slice(0, 1) }];
    const adapted = [{ tokens: model.ids.slice(0, 1), adapter: 0 }];
    const turns = await stepsLogits(create, asFolder(model), [path], [plain, adapted, adapted, plain]);
    const [alone] = await stepLogits(create, asFolder(model), [path], adapted);
    const [without] = await stepLogits(create, asFolder(model), [path], plain);
    expect(without).not.toEqual(alone);
    expect(turns).toEqual([[without], [alone], [alone], [without]]);
  });

  it('have the bits that each has alone, also of embeddings and heads', () => {
    const model = formulaModel('gemma3 with a logit cap');
    return haveBitsOfTheirOwn(create, model, [
      asMlxAdapter(join(folder, 'tied'), changeOf(model, /embed_tokens\.weight/)),
      asPeftAdapter(join(folder, 'table'), changeOf(model, /(embed_tokens|q_proj)\.weight/, 5)),
      asPeftAdapter(join(folder, 'head'), changeOf({ tensors: { 'lm_head.weight': [40, 32] } }, /lm_head/)),
    ]);
  });

  it('add the same where one before them changes other maps, and scales those', async () => {
    const model = formulaModel('llama with biases');
    const scaling = asDoraAdapter(join(folder, 'scaling'), changeOf(model, /(o|down)_proj\.weight/));
    const adding = asPeftAdapter(join(folder, 'adding'), changeOf(model, /v_proj\.weight/));
    const alone = await stepLogits(create, asFolder(model), [adding], [{ tokens: model.ids, adapter: 0 }]);
    const second = [{ tokens: model.ids, adapter: 1 }];
    const after = await stepLogits(create, asFolder(model), [scaling, adding], second);
    expect(distance(alone[0], after[0])).toBeLessThan(tolerance);
  });

  it('have the bits that each has alone, also of experts', () => {
    const model = formulaModel('qwen3 with experts');
    return haveBitsOfTheirOwn(create, model, [
      asMlxAdapter(join(folder, 'all'), changeOf(model, /(_proj|mlp\.gate)\.weight/)),
      asPeftAdapter(join(folder, 'some'), changeOf(model, /experts\.[023]\.(up|down)_proj\.weight/, 5)),
      asDoraAdapter(join(folder, 'scaled'), changeOf(model, /experts\.\d\.gate_proj\.weight/)),
    ]);
  });
}

/** The largest difference, relative to the largest value or 1. */
function distance(known: Float32Array | undefined, computed: Float32Array | undefined): number {
  if (known === undefined || computed === undefined) return Number.NaN;
  const differences = known.map((value, at) => Math.abs(value - (computed[at] ?? Number.NaN)));
  return Math.max(...differences) / Math.max(1, ...known.map(Math.abs));
}
