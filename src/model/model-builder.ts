// What a family provides, and what it builds a ModelSpec with.

import { optionalFlag } from './config.ts';
import { holdsMore } from './hugging-face-config.ts';
import {
  type CacheSpec,
  defined,
  LayerBuilder,
  modelLeaves,
  type NormOptions,
  normSpec,
  type RecurrentStateSpec,
  type SharedParts,
} from './layer-builder.ts';
import type { ListField } from './layer-config.ts';
import { type MtpPlace, mtp } from './layers/mtp.ts';
import { tableSpec } from './leaves.ts';
import type { ModelSource } from './model-source.ts';
import type { RopeSpec } from './rope.ts';
import type { LayerSpec, LinearSpec, ModelSpec, MtpSpec } from './spec.ts';
import { type FamilyNames, publishedNames, type TensorNames, tensorNames } from './tensor-names.ts';

export interface Architecture {
  readonly name: string;
  /** `model_type` values of config.json. */
  readonly modelTypes: readonly string[];
  /** `general.architecture` values of GGUF files. */
  readonly ggufNames: readonly string[];
  /** Values of config.json fields that files of this architecture leave out. */
  readonly defaults: Readonly<Record<string, unknown>>;
  /** The same of GGUF files, under the names of config.json. */
  readonly ggufDefaults?: Readonly<Record<string, unknown>>;
  /** Other names that config.json files give to fields, under the usual ones; the first that a file has counts. */
  readonly otherNames?: Readonly<Record<string, readonly string[]>>;
  readonly layerLists?: readonly ListField[];
  build(source: ModelSource): ModelSpec;
}

interface BuilderOptions {
  readonly names?: FamilyNames;
  readonly norms?: NormOptions;
}

interface ModelOptions extends Partial<Pick<ModelSpec, 'perLayerInputs' | 'altUp'>> {
  readonly prefixLm?: true | undefined;
  readonly layers: (layer: LayerBuilder) => LayerSpec;
  /** The layer of an MTP head; absent: the family has none, or it lies in this file in a way that is not known. */
  readonly mtpLayer?: ((layer: LayerBuilder) => LayerSpec) | undefined;
  /** Default: `mtp`. */
  readonly mtpPlace?: MtpPlace | undefined;
  readonly embeddingScale?: number | undefined;
  readonly embeddingNorm?: boolean;
  readonly positionRows?: number | undefined;
  /** Rows of their table before that of the first position. Default 0. */
  readonly firstPosition?: number | undefined;
  readonly textKindRows?: number | undefined;
  readonly finalNorm?: boolean;
  readonly logitScale?: number | undefined;
  readonly logitSoftcap?: number | undefined;
}

const embeddingNames = {
  positions: { hub: 'embeddings.position_embeddings', gguf: 'position_embd' },
  textKinds: { hub: 'embeddings.token_type_embeddings', gguf: 'token_types' },
  embeddingNorm: { hub: 'embeddings.LayerNorm', gguf: 'token_embd_norm' },
};

export class ModelBuilder implements SharedParts {
  readonly source: ModelSource;
  readonly names: TensorNames;
  readonly normOptions: NormOptions;
  readonly ropes: RopeSpec[] = [];
  readonly caches: CacheSpec[] = [];
  readonly recurrentStates: RecurrentStateSpec[] = [];

  constructor(source: ModelSource, { names, norms = {} }: BuilderOptions = {}) {
    const { published, naming, opened } = source;
    this.source = source;
    this.names = published
      ? publishedNames(published.publisher, names)
      : tensorNames(naming, opened.weights, names);
    this.normOptions = norms;
  }

  rope(rope: RopeSpec): number {
    return this.ropes.push(rope) - 1;
  }

  spec(options: ModelOptions): ModelSpec {
    const { hiddenSize, vocabSize, contextLength, normEpsilon, layerCount } = this.source.sizes;
    const { positionRows, textKindRows } = options;
    const isTied = this.#isHeadTied();
    const layers = Array.from({ length: layerCount }, (_, index) =>
      options.layers(new LayerBuilder(this, index)),
    );
    // Its cache is the last one.
    const mtpHead = this.#mtp(options);
    const leaves = modelLeaves(this, embeddingNames);
    const table = (role: 'positions' | 'textKinds', rows: number | undefined) =>
      rows === undefined ? undefined : leaves.table(role, rows, hiddenSize);
    const positions = table('positions', positionRows);
    const isHeadless = this.#isHeadless(layers, isTied);
    const embedding = tableSpec(this.names.embedding, vocabSize, hiddenSize);
    const tensor = isTied || isHeadless ? embedding.tensor : this.names.head;
    const head: LinearSpec = {
      leaf: 'linear',
      weight: { tensor, firstRow: 0, rows: vocabSize },
      columns: hiddenSize,
    };
    return defined({
      architecture: this.source.architecture,
      hiddenSize,
      vocabSize,
      contextLength: Math.min(contextLength, positionRows ?? contextLength),
      normEpsilon,
      embeddingScale: options.embeddingScale ?? 1,
      ropes: this.ropes,
      caches: this.caches,
      recurrentStates: this.recurrentStates,
      embedding,
      positions: positions && { ...positions, firstRow: options.firstPosition ?? 0 },
      textKinds: table('textKinds', textKindRows),
      embeddingNorm: options.embeddingNorm ? leaves.norm('embeddingNorm', hiddenSize) : undefined,
      prefixLm: options.prefixLm,
      perLayerInputs: options.perLayerInputs,
      altUp: options.altUp,
      layers,
      finalNorm:
        options.finalNorm === false
          ? undefined
          : normSpec(this.normOptions, this.names.finalNorm, hiddenSize),
      head,
      logitScale: options.logitScale,
      logitSoftcap: options.logitSoftcap,
      mtp: mtpHead,
      headless: isHeadless || undefined,
      textOnly: this.#isTextOnly() || undefined,
    });
  }

  #mtp({ mtpLayer, mtpPlace = 'mtp' }: ModelOptions): MtpSpec | undefined {
    const { wantsMtp, sizes } = this.source;
    if (wantsMtp !== true || mtpLayer === undefined) return undefined;
    const oneMore = new LayerBuilder(this, sizes.layerCount);
    if (mtpPlace === 'last-layer') return mtp(oneMore, oneMore, mtpPlace, mtpLayer);
    const builder = (owner: 'mtp' | 'mtpLayer') => new LayerBuilder(this, sizes.layerCount, owner);
    return mtp(builder('mtp'), builder('mtpLayer'), mtpPlace, mtpLayer);
  }

  /** Where the file says so, and where it is silent and stores none. */
  #isHeadTied(): boolean {
    const { published, config, opened } = this.source;
    if (published) return false;
    return optionalFlag(config, 'tie_word_embeddings') ?? !opened.weights.tensors.has(this.names.head);
  }

  /** Encoders, classifiers, and bodies saved without their head. */
  #isHeadless(layers: readonly LayerSpec[], isTied: boolean): boolean {
    const { published, opened } = this.source;
    if (published) return false;
    const bodies = layers.flatMap(({ branches }) =>
      branches.flatMap(({ parts }) => parts.map(({ body }) => body)),
    );
    const { tensors } = opened.weights;
    const hasHead = tensors.has(this.names.head);
    return (
      bodies.some((body) => body.kind === 'attention' && body.bidirectional) ||
      (!hasHead && tensors.has('score.weight')) ||
      (!hasHead && this.names.bodyAlone && !isTied)
    );
  }

  #isTextOnly(): boolean {
    const { published, opened } = this.source;
    return !published && opened.format !== 'gguf' && holdsMore(opened.config);
  }
}
