// MTP heads, from files to logits, against layers of HF transformers; also in the form of GGUF files, on every backend that
// computes them, however a text is cut and whatever is computed beside it.

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  type Backend,
  BLOCK_TOKENS,
  type CreateBackend,
  type DraftedToken,
  KEPT_STATES,
} from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { sizesOf, weightBytes } from '../../src/compute/memory.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { buildSpec } from '../../src/model/build-spec.ts';
import { greedyParameters } from '../../src/sampling/parameters.ts';
import type { SampleRow } from '../../src/sampling/sample-row.ts';
import type { OpenedModel } from '../../src/weights/open-model.ts';
import { asGguf, type GgufForm } from '../support/formula-gguf.ts';
import { asFolder, formulaModel, formulaTensors } from '../support/formula-model.ts';
import {
  answers,
  BLOCKS,
  compute,
  cpu,
  difference,
  type HeadModel,
  placed,
  predict,
  TOLERANCE,
  withHead,
} from '../support/head-answers.ts';
import { floatTensor, memoryWeights } from '../support/memory-weights.ts';
import { addon } from '../support/native.ts';

const models: Readonly<Record<string, HeadModel>> = JSON.parse(
  readFileSync(new URL('./mtp.json', import.meta.url), 'utf8'),
);
const hybrid = models['qwen3.5'] as HeadModel;
const glm = models['glm4 with experts'] as HeadModel;
const attending = models['qwen3.5 of attention alone'] as HeadModel;
const latent = models.deepseek3 as HeadModel;

function withBackend<T>(
  opened: OpenedModel,
  create: CreateBackend,
  use: (backend: Backend) => Promise<T>,
): Promise<T> {
  const spec = buildSpec(opened, { mtp: true });
  expect(spec.mtpProblem).toBeUndefined();
  return withHead({ spec, weights: opened.weights }, create, use);
}

/** By seed, and one in two of the tokens. */
const draftRow = (position: number, choice: number): SampleRow => ({
  parameters: { ...greedyParameters, temperature: 1, seed: { low: 7, high: 1 }, logprobs: 0 },
  position,
  choice,
  forbidden: [],
  mask: Uint32Array.of(0x55555555, 0x55555555),
});

const ggufForms: readonly (readonly [HeadModel, GgufForm])[] = [
  [
    attending,
    {
      architecture: 'qwen35',
      postAttention: 'post_attention_norm',
      raisesNorms: true,
      keys: {
        full_attention_interval: 1,
        'attention.key_length': 16,
        'attention.value_length': 16,
        'rope.dimension_count': 4,
        'rope.freq_base': 10_000,
        'ssm.conv_kernel': 4,
        'ssm.state_size': 8,
        'ssm.group_count': 2,
        'ssm.time_step_rank': 4,
        'ssm.inner_size': 32,
      },
    },
  ],
  [
    glm,
    {
      architecture: 'glm4moe',
      postAttention: 'post_attention_norm',
      keys: {
        'attention.key_length': 8,
        'attention.value_length': 8,
        'rope.dimension_count': 4,
        expert_count: 8,
        expert_used_count: 2,
        expert_feed_forward_length: 24,
        expert_group_count: 4,
        expert_group_used_count: 2,
        leading_dense_block_count: 1,
        expert_shared_count: 2,
        expert_gating_func: 2,
        expert_weights_norm: true,
        expert_weights_scale: 2.5,
      },
    },
  ],
];

/** The head's layer is counted with the model's. */
const ggufs = ggufForms.map(([model, form]) => {
  const block_count = Number(model.config.num_hidden_layers) + 1;
  const keys = { ...form.keys, block_count, nextn_predict_layers: 1 };
  return [model, asGguf({ ...model, rows: [] }, { ...form, keys })] as const;
});
const gguf = ggufs[0]?.[1] as OpenedModel;

describe('an MTP head', () => {
  it.each([
    ['in TypeScript', createReferenceBackend, TOLERANCE.typescript],
    ['in C++', cpu(), TOLERANCE.native],
  ] as const)(
    'gives the logits of HF transformers, and goes on from its own states, %s',
    async (_, create, tolerance) => {
      const inFolders = Object.values(models).filter((model) => model !== attending);
      const folders = inFolders.map((model) => [model, asFolder(model)] as const);
      for (const [model, opened] of [...folders, ...ggufs]) {
        const given = await withBackend(opened, create, (backend) => answers(backend, model, 1));
        expect(difference(given, model)).toBeLessThan(tolerance);
      }
    },
  );

  it('gives them from a folder of MLX, too', async () => {
    const converted = formulaTensors(hybrid).map(({ name, shape, values }) => {
      const [channels = 0, one = 0, length = 0] = shape;
      if (name.endsWith('conv1d.weight')) return floatTensor(name, [channels, length, one], values);
      const isShifted = name.includes('norm') && !name.includes('linear_attn');
      return floatTensor(name, shape, isShifted ? values.map((value) => value + 1) : values);
    });
    const opened = {
      ...asFolder(hybrid),
      headerFormats: ['mlx'],
      weights: memoryWeights(converted),
    } as OpenedModel;
    const given = await withBackend(opened, cpu(), (backend) => answers(backend, hybrid, 1));
    expect(difference(given, hybrid)).toBeLessThan(TOLERANCE.native);
  });

  it.each(addon().kernels())(
    'has the same bits however a text is cut, with the kernels of %s',
    async (isa) => {
      for (const model of [hybrid, latent]) {
        const ask = (piece: number, kernels?: string) =>
          withBackend(asFolder(model), cpu(kernels), (backend) => answers(backend, model, piece));
        const alone = await ask(1);
        expect(await ask(1, isa)).toEqual(alone);
        const chained = alone.slice(-model.chained.length);
        for (const piece of [7, 33, 66])
          expect((await ask(piece, isa)).slice(-chained.length)).toEqual(chained);
      }
    },
  );

  it('has the same bits among others, after drafts that were rejected, and from blocks that were kept', async () => {
    const { ids, computed } = attending;
    const tokens = ids.slice(0, computed);
    const next = ids[computed] as number;
    await withBackend(gguf, cpu(), async (backend) => {
      await compute(backend, tokens, 0);
      const alone = await predict(backend, placed([next], computed));
      const other = { tokens: [3, 1, 4, 1, 5, 9], start: 0, blocks: [0], wantLogits: 'none' } as const;
      await backend.step(buildBatch([other]));
      const after = { ...other, tokens: [2], start: 6 };
      const beside = await predict(backend, after);
      const both = await predict(backend, after, placed([next], computed));
      expect(both.slice(0, 40)).toEqual(beside);
      expect(both.slice(40)).toEqual(alone);

      // As many as a step may have, none of which is accepted.
      const drafts = Array.from({ length: KEPT_STATES - 1 }, (_, i) => (5 * i + 1) % 40);
      await compute(backend, [...tokens.slice(-1), ...drafts], computed - 1);
      expect(await predict(backend, placed([next], computed))).toEqual(alone);

      const { content } = backend;
      if (content === undefined) throw new Error('content can be kept');
      const kept = await content.readBlocks(Int32Array.from(BLOCKS.slice(0, 2)));
      const moved = [5, 6, 7];
      for (const [at, bytes] of kept.entries()) content.writeBlock(moved[at] as number, bytes);
      await backend.step(buildBatch([placed(tokens.slice(64), 64, moved)]));
      expect(await predict(backend, placed([next], computed, moved))).toEqual(alone);
    });
  });

  it.each([
    ['in TypeScript', createReferenceBackend],
    ['in C++', cpu()],
  ] as const)(
    'drafts in one call what it predicts round by round, for each sequence as many tokens as it wants, %s',
    async (_, create) => {
      const { ids, computed } = attending;
      await withBackend(gguf, create, async (backend) => {
        await compute(backend, ids.slice(0, computed), 0);
        await backend.step(
          buildBatch([{ tokens: [3, 1, 4, 1, 5, 9], start: 0, blocks: [0], wantLogits: 'none' }]),
        );
        const sequences = [
          { ...placed([ids[computed] as number], computed), rounds: 3 },
          { tokens: [2], start: 6, blocks: [0], wantLogits: 'none', rounds: 7 } as const,
        ];
        const drafts = sequences.map(({ start, rounds }, which) =>
          Array.from({ length: rounds }, (_, round) => draftRow(start + 1 + round, which)),
        );
        const wanted = sequences.map((): DraftedToken[] => []);
        for (const [which, { tokens, start, blocks, rounds }] of sequences.entries()) {
          const own = wanted[which] as DraftedToken[];
          for (let round = 0; round < rounds; round++) {
            const last = own.at(-1)?.token ?? (tokens[0] as number);
            const logits = await predict(backend, {
              tokens: [last],
              start: start + round,
              blocks,
              wantLogits: 'none',
            });
            const [result] = backend.sampleRows(logits, 40, [drafts[which]?.[round] as SampleRow]);
            if (result?.ok !== true) throw new Error('it samples');
            own.push({ token: result.token, logprob: result.logprobs?.logprob as number });
          }
        }
        const draft = async (rows: readonly (readonly SampleRow[])[], leastLogprob = -Infinity) =>
          backend.draft?.(buildBatch(sequences), rows, leastLogprob);
        expect(await draft(drafts)).toEqual(wanted);
        expect(wanted.map(({ length }) => length)).toEqual([3, 7]);
        // Where no token is allowed any more it ends, and others go on.
        const none = { ...(drafts[0]?.[1] as SampleRow), mask: new Uint32Array(2) };
        const cut = [[drafts[0]?.[0] as SampleRow, none, none], drafts[1] as SampleRow[]];
        expect(await draft(cut)).toEqual([wanted[0]?.slice(0, 1), wanted[1]]);
        // And where it is too unlikely: with the token that makes it so.
        const [first, second] = (wanted[1] as DraftedToken[]).map(({ logprob }) => logprob) as [
          number,
          number,
        ];
        const likely = await draft(drafts, (first + second) / 2);
        expect(likely?.[1]).toEqual(wanted[1]?.slice(0, first < (first + second) / 2 ? 1 : 2));
      });
    },
  );

  it('refuses drafts that would leave their blocks or have no token', async () => {
    const { ids, computed } = attending;
    await withBackend(gguf, cpu(), async (backend) => {
      await compute(backend, ids.slice(0, computed), 0);
      const batch = buildBatch([placed([ids[computed] as number], computed)]);
      const room = BLOCK_TOKENS - (computed % BLOCK_TOKENS);
      const rows = Array.from({ length: room + 1 }, (_, round) => draftRow(computed + 1 + round, 0));
      await expect(backend.draft?.(batch, [rows], -1)).rejects.toThrow('blocks');
      await expect(backend.draft?.(batch, [[]], -1)).rejects.toThrow('no draft');
      await expect(backend.draft?.(batch, [], -1)).rejects.toThrow('must have its draft');
      expect(await backend.draft?.(batch, [rows.slice(1)], -1)).toHaveLength(1);
    });
  });

  it('that is incomplete is left out, and the model is served without', () => {
    const { 'mtp.norm.weight': _, ...tensors } = hybrid.tensors;
    const spec = buildSpec(asFolder({ ...hybrid, tensors }), { mtp: true });
    expect(spec.mtp).toBeUndefined();
    expect(spec.mtpProblem).toContain('mtp.norm.weight');
    expect(spec.caches).toEqual(buildSpec(asFolder(hybrid)).caches);
  });

  it('of several layers, or of other sizes, is left out, and named', () => {
    const others = [
      [hybrid, 'mtp.embed_tokens.weight'],
      [hybrid, 'mtp.layers.1.input_layernorm.weight'],
      [models.mimo, 'model.mtp_layers.1.input_proj.weight'],
      [latent, 'model.layers.3.eh_proj.weight'],
    ] as const;
    for (const [model = hybrid, name] of others) {
      const spec = buildSpec(asFolder({ ...model, tensors: { ...model.tensors, [name]: [32] } }), {
        mtp: true,
      });
      expect(spec.mtp).toBeUndefined();
      expect(spec.mtpProblem).toContain(name);
    }
  });

  it('whose attention would have a window is left out, and named', () => {
    const model = formulaModel('mixtral');
    const tensors = { ...model.tensors, 'mtp.fc.weight': [32, 64] };
    const keys = {
      ...{ block_count: Number(model.config.num_hidden_layers) + 1, nextn_predict_layers: 1 },
      ...{ expert_count: 4, expert_used_count: 2, 'attention.sliding_window': 9 },
    };
    const opened = asGguf({ ...model, tensors }, { architecture: 'llama', pairs: true, keys });
    const spec = buildSpec(opened, { mtp: true });
    expect(spec.mtp).toBeUndefined();
    expect(spec.mtpProblem).toContain('sliding_window');
  });

  it('is read only where it is asked for, and named where it is of no use', () => {
    const opened = asFolder(hybrid);
    const plain = buildSpec(opened);
    expect(plain.mtp).toBeUndefined();
    expect(plain.mtpProblem).toBeUndefined();
    const problem = 'the moon computes none';
    expect(buildSpec(opened, { mtp: { problem } })).toEqual({ ...plain, mtpProblem: problem });
    const headless = Object.fromEntries(
      Object.entries(hybrid.tensors).filter(([name]) => !name.startsWith('mtp.')),
    );
    expect(buildSpec(asFolder({ ...hybrid, tensors: headless }), { mtp: { problem } })).toEqual(plain);
  });

  it('counts in the memory of a model and of its blocks', () => {
    const opened = asFolder(hybrid);
    const [plain, whole] = [buildSpec(opened), buildSpec(opened, { mtp: true })];
    for (const name of ['cpu', 'reference'] as const) {
      const { matrixBytes, kvBlockBytes } = sizesOf(name);
      const bytes = (spec: typeof plain) => weightBytes(spec, opened.weights, matrixBytes);
      expect(bytes(whole)).toBeGreaterThan(bytes(plain) + 4 * 32 * 64);
      const states = KEPT_STATES * 32 * (name === 'cpu' ? 2 : 4);
      const third = kvBlockBytes({ ...plain, caches: whole.caches }, 'f16');
      // Native blocks are whole pages.
      expect(kvBlockBytes(whole, 'f16') - third).toBeGreaterThanOrEqual(name === 'cpu' ? 0 : states);
      expect(kvBlockBytes(whole, 'f16')).toBeGreaterThan(kvBlockBytes(plain, 'f16'));
    }
  });
});
