// Makes of a spec what the addon is told: reads its vectors, and gives every matrix a number and a place to be filled.

import type { OutputFactors } from '../../model/output-factors.ts';
import type {
  Activation,
  AdditionSpec,
  AttentionSpec,
  BodySpec,
  BranchSpec,
  ConvolutionSpec,
  DeltaNetSpec,
  ExpertsSpec,
  FeedForwardSpec,
  HeadNormSpec,
  LatentAttentionSpec,
  LayerInputSpec,
  LayerInputsSpec,
  LayerSpec,
  LayerStreamsSpec,
  LinearSpec,
  LowRankSpec,
  MatrixSpec,
  ModelSpec,
  NormSpec,
  PartSpec,
  RouterSpec,
  RowSlice,
  ShortConvolutionSpec,
  StateSpaceSpec,
  StoredSpec,
  StreamsSpec,
  VectorSpec,
} from '../../model/spec.ts';
import { isHeadTied } from '../../model/spec-walk.ts';
import { type NormWeights, readBias, readNorm, readVector, rowType } from '../../model/weight-reader.ts';
import { ModelFileError } from '../../weights/model-file-error.ts';
import { readFloats } from '../../weights/read-tensor.ts';
import { type TensorType, tensorLayouts } from '../../weights/tensor-type.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import type {
  NativeActivation,
  NativeAddition,
  NativeAttention,
  NativeBody,
  NativeBranch,
  NativeConvolution,
  NativeDeltaNet,
  NativeExperts,
  NativeFeedForward,
  NativeHeadNorm,
  NativeLatentAttention,
  NativeLayer,
  NativeLayerInput,
  NativeLayerInputs,
  NativeLayerStreams,
  NativeLinear,
  NativeLowRank,
  NativeModel,
  NativePart,
  NativeRouter,
  NativeShortConvolution,
  NativeStateSpace,
  NativeStored,
  NativeStreams,
} from './native-model.ts';

/** Rows of a slice that make one member of a matrix. */
export interface MemberRows {
  readonly slice: RowSlice;
  readonly firstRow: number;
  readonly rows: number;
}

/** A matrix of the addon, and the rows that fill its members. */
export interface MatrixUpload {
  readonly matrix: number;
  /** Of the rows in the file. */
  readonly type: TensorType;
  readonly columns: number;
  readonly members: readonly MemberRows[];
  /** Rows are handed over as float32, whatever the file holds. */
  readonly decoded: boolean;
}

/** Makes room for a matrix and gives its number. */
type AddMatrix = (type: TensorType, outputs: number, inputs: number, members: number) => number;

/** What an adapter adds to members in a row. */
interface AdditionRun {
  readonly firstMember: number;
  readonly additions: AdditionSpec[];
}

interface DescribedModel {
  readonly model: NativeModel;
  readonly matrices: readonly MatrixUpload[];
}

export function describeModel(
  spec: ModelSpec,
  weights: WeightSource,
  outputFactors: ReadonlyMap<AdditionSpec, OutputFactors>,
  addMatrix: AddMatrix,
): DescribedModel {
  const describer = new Describer(weights, outputFactors, addMatrix);
  return { model: describer.model(spec), matrices: describer.matrices };
}

class Describer {
  readonly matrices: MatrixUpload[] = [];
  readonly #weights: WeightSource;
  readonly #outputFactors: ReadonlyMap<AdditionSpec, OutputFactors>;
  readonly #addMatrix: AddMatrix;

  constructor(
    weights: WeightSource,
    outputFactors: ReadonlyMap<AdditionSpec, OutputFactors>,
    addMatrix: AddMatrix,
  ) {
    this.#weights = weights;
    this.#outputFactors = outputFactors;
    this.#addMatrix = addMatrix;
  }

  model(spec: ModelSpec): NativeModel {
    const embedding = this.#matrix([{ weight: spec.embedding, columns: spec.hiddenSize }]);
    const layers = spec.layers.map((layer) => this.#layer(layer));
    const head = isHeadTied(spec)
      ? { matrix: embedding, bias: this.#bias([spec.head]), additions: this.#additions([spec.head]) }
      : this.#linear(spec.head);
    return {
      ...spec,
      ropes: spec.ropes.map(({ inverseFrequencies, magnitude }) => ({
        inverseFrequencies: Float64Array.from(inverseFrequencies),
        magnitude,
      })),
      embedding,
      embeddingAdditions: (spec.embeddingAdditions ?? []).map(({ adapter, rank, scale, table, up }) => ({
        adapter,
        rank,
        scale,
        table: this.#matrix([{ weight: table, columns: rank }]),
        up: this.#matrix([up]),
      })),
      positions: spec.positions && {
        matrix: this.#matrix([{ weight: spec.positions, columns: spec.hiddenSize }]),
        rows: spec.positions.rows,
      },
      textKind: spec.textKinds && readFloats(this.#weights, spec.textKinds.tensor).slice(0, spec.hiddenSize),
      embeddingNorm: this.#norm(spec.embeddingNorm),
      layerInputs: spec.layerInputs && this.#layerInputs(spec.layerInputs),
      streams: spec.streams && this.#streams(spec.streams),
      layers,
      finalNorm: this.#norm(spec.finalNorm),
      head,
    };
  }

  #streams({ spread, gather }: StreamsSpec): NativeStreams {
    return {
      spread: spread.map((linear) => this.#linear(linear)),
      gather: gather.map((linear) => this.#linear(linear)),
    };
  }

  #layer({ branches, streams }: LayerSpec): NativeLayer {
    return {
      branches: branches.map((branch) => this.#branch(branch)),
      streams: streams && this.#layerStreams(streams),
    };
  }

  #layerStreams(spec: LayerStreamsSpec): NativeLayerStreams {
    return {
      norm: readNorm(this.#weights, spec.norm),
      features: this.#linear(spec.features),
      prediction: this.#linear(spec.prediction),
      correction: this.#linear(spec.correction),
      told: this.#part(spec.told),
      toldScale: this.#vector(spec.toldScale),
    };
  }

  #branch({ parts, output, scale, streamScale, streamNorm }: BranchSpec): NativeBranch {
    return {
      parts: parts.map((part) => this.#part(part)),
      output: this.#norm(output),
      scale,
      streamScale,
      streamNorm: this.#norm(streamNorm),
    };
  }

  #part({ input, body, output }: PartSpec): NativePart {
    return { input: this.#norm(input), body: this.#body(body), output: this.#norm(output) };
  }

  #body(spec: BodySpec): NativeBody {
    switch (spec.kind) {
      case 'attention':
        return this.#attention(spec);
      case 'latent-attention':
        return this.#latentAttention(spec);
      case 'feed-forward':
        return this.#feedForward([spec]);
      case 'experts':
        return this.#experts(spec);
      case 'delta-net':
        return this.#deltaNet(spec);
      case 'short-convolution':
        return this.#shortConvolution(spec);
      case 'state-space':
        return this.#stateSpace(spec);
      case 'layer-input':
        return this.#layerInput(spec);
      case 'low-rank':
        return this.#lowRank(spec);
    }
  }

  #layerInput({ kind, index, activation, gate, output }: LayerInputSpec): NativeLayerInput {
    return {
      kind,
      index,
      activation: nativeActivation(activation),
      gate: this.#linear(gate),
      output: this.#linear(output),
    };
  }

  #lowRank({ kind, down, up, norm }: LowRankSpec): NativeLowRank {
    return {
      kind,
      rank: down.weight.rows,
      down: this.#linear(down),
      up: this.#linear(up),
      norm: readNorm(this.#weights, norm),
    };
  }

  #layerInputs(spec: LayerInputsSpec): NativeLayerInputs {
    const { count, size, table, tableScale, projection, projectionScale, norm } = spec;
    return {
      count,
      size,
      table: this.#matrix([{ weight: table, columns: count * size }]),
      tableRows: table.rows,
      tableScale,
      projection: this.#linear(projection),
      projectionScale,
      norm: readNorm(this.#weights, norm),
    };
  }

  #deltaNet(spec: DeltaNetSpec): NativeDeltaNet {
    return {
      ...spec,
      query: this.#linear(spec.query),
      key: this.#linear(spec.key),
      value: this.#linear(spec.value),
      convolution: this.#convolution(spec.convolution),
      share: this.#linear(spec.share),
      decay: this.#linear(spec.decay),
      decayBias: readVector(this.#weights, spec.decayBias),
      rates: readVector(this.#weights, spec.decayRate),
      norm: readNorm(this.#weights, spec.norm),
      gate: this.#linear(spec.gate),
      output: this.#linear(spec.output),
    };
  }

  #shortConvolution(spec: ShortConvolutionSpec): NativeShortConvolution {
    return {
      ...spec,
      before: this.#linear(spec.before),
      after: this.#linear(spec.after),
      value: this.#linear(spec.value),
      convolution: this.#convolution(spec.convolution),
      output: this.#linear(spec.output),
    };
  }

  #stateSpace(spec: StateSpaceSpec): NativeStateSpace {
    return {
      ...spec,
      value: this.#linear(spec.value),
      write: this.#linear(spec.write),
      read: this.#linear(spec.read),
      convolution: this.#convolution(spec.convolution),
      step: this.#linear(spec.step),
      stepBias: readVector(this.#weights, spec.stepBias),
      rates: readVector(this.#weights, spec.rate),
      skip: readVector(this.#weights, spec.skip),
      gate: this.#linear(spec.gate),
      norm: readNorm(this.#weights, spec.norm),
      output: this.#linear(spec.output),
    };
  }

  #convolution({ weight, bias, length }: ConvolutionSpec): NativeConvolution {
    return { length, weights: readVector(this.#weights, weight), bias: this.#vector(bias) };
  }

  #attention(spec: AttentionSpec): NativeAttention {
    return {
      ...spec,
      query: this.#linear(spec.query),
      stored: spec.stored === undefined ? undefined : this.#stored(spec.stored),
      output: this.#linear(spec.output),
      queryNorm: this.#headNorm(spec.queryNorm),
      sinks: this.#vector(spec.sinks),
      gate: this.#maybeStack([spec.gate]),
    };
  }

  #latentAttention(spec: LatentAttentionSpec): NativeLatentAttention {
    const { headCount, queryInput } = spec;
    return {
      ...spec,
      queryInput: queryInput && {
        size: queryInput.down.weight.rows,
        down: this.#linear(queryInput.down),
        norm: readNorm(this.#weights, queryInput.norm),
      },
      query: this.#linear(spec.query),
      queryRotated: this.#linear(spec.queryRotated),
      latent: this.#linear(spec.latent),
      latentNorm: readNorm(this.#weights, spec.latentNorm),
      keyRotated: this.#linear(spec.keyRotated),
      toLatent: this.#byHead(spec.toLatent, headCount),
      toValues: this.#byHead(spec.toValues, headCount),
      output: this.#linear(spec.output),
    };
  }

  /** The rows of each head as a member; such maps have no bias. */
  #byHead({ weight, columns }: LinearSpec, heads: number): NativeLinear {
    const rows = weight.rows / heads;
    const members = Array.from({ length: heads }, (_, head) => ({
      slice: weight,
      firstRow: head * rows,
      rows,
    }));
    return { matrix: this.#addUpload(members, columns), bias: undefined, additions: [] };
  }

  #stored({ key, value, keyNorm, valueNorm }: StoredSpec): NativeStored {
    return {
      key: this.#linear(key),
      value: this.#maybeStack([value]),
      keyNorm: this.#headNorm(keyNorm),
      valueNorm: this.#headNorm(valueNorm),
    };
  }

  /** One, or several that are alike but for their weights. */
  #feedForward(specs: readonly FeedForwardSpec[]): NativeFeedForward {
    const { kind, size, activation, gateCutoff } = specs[0] as FeedForwardSpec;
    return {
      kind,
      size,
      activation: nativeActivation(activation),
      gate: this.#maybeStack(specs.map(({ gate }) => gate)),
      up: this.#stack(specs.map(({ up }) => up)),
      down: this.#stack(specs.map(({ down }) => down)),
      share: this.#maybeStack(specs.map(({ share }) => share)),
      ...(gateCutoff === undefined ? {} : { gateCutoff }),
    };
  }

  #experts({ kind, router, experts, scalesInput }: ExpertsSpec): NativeExperts {
    return {
      kind,
      count: experts.length,
      router: this.#router(router),
      each: this.#feedForward(experts),
      ...(scalesInput ? { scalesInput } : {}),
    };
  }

  #router(spec: RouterSpec): NativeRouter {
    return {
      ...spec,
      // Which expert is best should not hang on activations of eight bits.
      linear: {
        matrix: this.#matrix([spec.linear], true),
        bias: this.#bias([spec.linear]),
        additions: this.#additions([spec.linear]),
      },
      choiceBias: this.#vector(spec.choiceBias),
      expertScales: this.#vector(spec.expertScales),
      norm: this.#norm(spec.norm),
    };
  }

  #linear(spec: LinearSpec): NativeLinear {
    return this.#stack([spec]);
  }

  /** All are there, or none is. */
  #maybeStack(specs: readonly (LinearSpec | undefined)[]): NativeLinear | undefined {
    const all = specs.filter((spec) => spec !== undefined);
    return all.length === 0 ? undefined : this.#stack(all);
  }

  #stack(specs: readonly LinearSpec[]): NativeLinear {
    return { matrix: this.#matrix(specs), bias: this.#bias(specs), additions: this.#additions(specs) };
  }

  /** One for all members in a row that an adapter adds to alike. */
  #additions(specs: readonly LinearSpec[]): NativeAddition[] {
    const runs: AdditionRun[] = [];
    for (const [member, { additions = [] }] of specs.entries()) {
      for (const addition of additions) {
        const run = runs.find((one) => this.#isNext(one, member, addition));
        if (run === undefined) runs.push({ firstMember: member, additions: [addition] });
        else run.additions.push(addition);
      }
    }
    return runs.map((run) => this.#addition(run, (specs[0] as LinearSpec).columns));
  }

  #isNext({ firstMember, additions }: AdditionRun, member: number, addition: AdditionSpec): boolean {
    const [first] = additions as [AdditionSpec];
    const type = (slice: RowSlice) => rowType(this.#weights, slice);
    return (
      firstMember + additions.length === member &&
      first.adapter === addition.adapter &&
      first.rank === addition.rank &&
      first.scale === addition.scale &&
      (first.magnitude === undefined) === (addition.magnitude === undefined) &&
      type(first.down) === type(addition.down) &&
      type(first.up) === type(addition.up)
    );
  }

  #addition({ firstMember, additions }: AdditionRun, columns: number): NativeAddition {
    const [{ adapter, rank, scale }] = additions as [AdditionSpec];
    const factors = additions.flatMap((addition) => this.#outputFactors.get(addition) ?? []);
    return {
      ...(factors.length === 0
        ? {}
        : {
            factors: joined(factors.map((one) => one.factors)),
            shifts: joined(factors.map((one) => one.shifts)),
          }),
      adapter,
      rank,
      scale,
      firstMember,
      members: additions.length,
      down: this.#matrix(additions.map(({ down }) => ({ weight: down, columns }))),
      up: this.#matrix(additions.map(({ up }) => ({ weight: up, columns: rank }))),
    };
  }

  #matrix(specs: readonly MatrixSpec[], floats = false): number {
    const members = specs.map(({ weight }) => ({ slice: weight, firstRow: 0, rows: weight.rows }));
    return this.#addUpload(members, (specs[0] as MatrixSpec).columns, floats);
  }

  #addUpload(members: readonly MemberRows[], columns: number, floats = false): number {
    const { slice, rows } = members[0] as MemberRows;
    const type = rowType(this.#weights, slice);
    for (const member of members) this.#requireType(member.slice, type);
    const decoded = floats && tensorLayouts[type].blockSize > 1;
    const matrix = this.#addMatrix(decoded ? 'F32' : type, rows, columns, members.length);
    this.matrices.push({ matrix, type, columns, members, decoded });
    return matrix;
  }

  #requireType(slice: RowSlice, type: TensorType): void {
    const own = rowType(this.#weights, slice);
    if (own === type) return;
    throw new ModelFileError({
      file: 'weights',
      field: slice.tensor,
      problem: `is ${own}, and the same matrix of another expert is ${type}`,
      remedy: 'Convert the model so that all experts of a layer are stored alike',
    });
  }

  #bias(specs: readonly LinearSpec[]): Float32Array | undefined {
    const biases = specs.map(({ bias }) => bias).filter((bias) => bias !== undefined);
    const [first] = biases;
    if (first === undefined) return undefined;
    const all = new Float32Array(first.rows * biases.length);
    for (const [index, bias] of biases.entries()) all.set(readBias(this.#weights, bias), index * first.rows);
    return all;
  }

  #norm(spec: NormSpec | undefined): NormWeights | undefined {
    return spec === undefined ? undefined : readNorm(this.#weights, spec);
  }

  #headNorm(spec: HeadNormSpec | undefined): NativeHeadNorm | undefined {
    return spec === undefined ? undefined : { norm: readNorm(this.#weights, spec.norm), over: spec.over };
  }

  #vector(spec: VectorSpec | undefined): Float32Array | undefined {
    return spec === undefined ? undefined : readVector(this.#weights, spec);
  }
}

function joined(parts: readonly Float32Array[]): Float32Array {
  const all = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function nativeActivation(activation: Activation): NativeActivation {
  return typeof activation === 'string' ? { kind: activation } : { kind: 'clamped', ...activation };
}
