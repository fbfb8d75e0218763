// Sizes of well-known models, for benchmarks without their weights.

export interface DummyShape {
  readonly architecture: 'llama' | 'qwen2' | 'qwen3moe' | 'qwen35' | 'gpt-oss' | 'gemma4';
  readonly layers: number;
  readonly hidden: number;
  readonly ffn: number;
  /** In every layer, in place of the feed-forward or with it. */
  readonly experts?: {
    readonly count: number;
    readonly used: number;
    readonly size: number;
    readonly beside?: true;
  };
  /** In place of attention in all layers but every `interval`-th: gated delta nets of heads of one size. */
  readonly gatedDeltaNet?: {
    readonly keyHeads: number;
    readonly valueHeads: number;
    readonly size: number;
    readonly interval: number;
  };
  /** Of every other layer, or of all but `global`. */
  readonly window?: number;
  /** Every `interval`-th layer sees all tokens, with heads of its own, and its keys are its values. */
  readonly global?: {
    readonly interval: number;
    readonly kvHeads: number;
    readonly headSize: number;
    readonly ropeBase: number;
  };
  /** Values of a head that are rotated; all of them unless given. */
  readonly rotated?: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
  readonly vocab: number;
  readonly context: number;
  readonly ropeBase: number;
  readonly tied: boolean;
}

export const dummyShapes = {
  'llama-3.2-1b': {
    architecture: 'llama',
    layers: 16,
    hidden: 2048,
    ffn: 8192,
    heads: 32,
    kvHeads: 8,
    headSize: 64,
    vocab: 128256,
    context: 131072,
    ropeBase: 500000,
    tied: true,
  },
  'llama-3.1-8b': {
    architecture: 'llama',
    layers: 32,
    hidden: 4096,
    ffn: 14336,
    heads: 32,
    kvHeads: 8,
    headSize: 128,
    vocab: 128256,
    context: 131072,
    ropeBase: 500000,
    tied: false,
  },
  'qwen2.5-0.5b': {
    architecture: 'qwen2',
    layers: 24,
    hidden: 896,
    ffn: 4864,
    heads: 14,
    kvHeads: 2,
    headSize: 64,
    vocab: 151936,
    context: 32768,
    ropeBase: 1000000,
    tied: true,
  },
  'smollm2-135m': {
    architecture: 'llama',
    layers: 30,
    hidden: 576,
    ffn: 1536,
    heads: 9,
    kvHeads: 3,
    headSize: 64,
    vocab: 49152,
    context: 8192,
    ropeBase: 100000,
    tied: true,
  },
  'qwen3-30b-a3b': {
    architecture: 'qwen3moe',
    layers: 48,
    hidden: 2048,
    ffn: 6144,
    experts: { count: 128, used: 8, size: 768 },
    heads: 32,
    kvHeads: 4,
    headSize: 128,
    vocab: 151936,
    context: 40960,
    ropeBase: 1000000,
    tied: false,
  },
  'gpt-oss-20b': {
    architecture: 'gpt-oss',
    layers: 24,
    hidden: 2880,
    ffn: 2880,
    experts: { count: 32, used: 4, size: 2880 },
    window: 128,
    heads: 64,
    kvHeads: 8,
    headSize: 64,
    vocab: 201088,
    context: 131072,
    ropeBase: 150000,
    tied: false,
  },
  'qwen3.5-0.8b': {
    architecture: 'qwen35',
    layers: 24,
    hidden: 1024,
    ffn: 3584,
    gatedDeltaNet: { keyHeads: 16, valueHeads: 16, size: 128, interval: 4 },
    rotated: 64,
    heads: 8,
    kvHeads: 2,
    headSize: 256,
    vocab: 248320,
    context: 262144,
    ropeBase: 10000000,
    tied: true,
  },
  'qwen3.5-9b': {
    architecture: 'qwen35',
    layers: 32,
    hidden: 4096,
    ffn: 12288,
    gatedDeltaNet: { keyHeads: 16, valueHeads: 32, size: 128, interval: 4 },
    rotated: 64,
    heads: 16,
    kvHeads: 4,
    headSize: 256,
    vocab: 248320,
    context: 262144,
    ropeBase: 10000000,
    tied: false,
  },
  'gemma-4-26b-a4b': {
    architecture: 'gemma4',
    layers: 30,
    hidden: 2816,
    ffn: 2112,
    experts: { count: 128, used: 8, size: 704, beside: true },
    window: 1024,
    global: { interval: 6, kvHeads: 2, headSize: 512, ropeBase: 1000000 },
    heads: 16,
    kvHeads: 8,
    headSize: 256,
    vocab: 262144,
    context: 262144,
    ropeBase: 10000,
    tied: true,
  },
} as const satisfies Record<string, DummyShape>;

export type DummyShapeName = keyof typeof dummyShapes;

export function seesAll({ global }: DummyShape, layer: number): boolean {
  return global !== undefined && (layer + 1) % global.interval === 0;
}
