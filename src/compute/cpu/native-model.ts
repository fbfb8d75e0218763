// Converts a ModelSpec to the addon's format: the same tree, with every matrix as a number and a place to be filled, and vectors
// as they are read from the file.

import { leavesOf, type MapLeaves, mapLeaves } from '../../model/leaves.ts';
import type { OutputFactors } from '../../model/output-factors.ts';
import type {
  AdditionSpec,
  BranchSpec,
  LayerSpec,
  LinearSpec,
  MatrixSpec,
  MlpSpec,
  ModelSpec,
  MoeSpec,
  PartSpec,
  RouterSpec,
  RowSlice,
} from '../../model/spec.ts';
import { isHeadTied } from '../../model/spec-walk.ts';
import { type NormWeights, readBias, readNorm, readVector, rowType } from '../../model/weight-reader.ts';
import { ModelFileError } from '../../weights/model-file-error.ts';
import { type TensorType, tensorLayouts } from '../../weights/tensor-type.ts';
import { readFloats, type WeightSource } from '../../weights/weight-source.ts';

interface NativeLinear {
  /** What `addMatrix` gave. */
  readonly matrix: number;
  /** Of all members, one after the other. */
  readonly bias: Float32Array | undefined;
  readonly additions: readonly NativeAddition[];
}

interface NativeAddition extends Pick<AdditionSpec, 'adapter' | 'rank' | 'scale'> {
  /** Which members of the map it adds to; its matrices have a member for each. */
  readonly firstMember: number;
  readonly members: number;
  /** What `addMatrix` gave. */
  readonly down: number;
  readonly up: number;
  /** Both or none: one for each output, member after member. */
  readonly factors?: Float32Array;
  readonly shifts?: Float32Array;
}

interface NativeTable {
  /** What `addMatrix` gave. */
  readonly matrix: number;
  readonly rows: number;
}

interface NativeLeaves {
  readonly linear: NativeLinear;
  readonly norm: NormWeights;
  readonly vector: Float32Array;
  readonly table: NativeTable;
}

type Native<Spec> = MapLeaves<Spec, NativeLeaves>;

interface NativeExperts extends Pick<MoeSpec, 'kind' | 'scalesInput'> {
  readonly count: number;
  readonly router: Native<RouterSpec>;
  /** Its matrices have a member for each expert. */
  readonly each: Native<MlpSpec>;
}

type NativePart = Omit<Native<PartSpec>, 'body'> & {
  readonly body: Native<PartSpec>['body'] | NativeExperts;
};
type NativeBranch = Omit<Native<BranchSpec>, 'parts'> & { readonly parts: readonly NativePart[] };
type NativeLayer = Omit<Native<LayerSpec>, 'branches'> & { readonly branches: readonly NativeBranch[] };

export type NativeModel = Omit<Native<ModelSpec>, 'layers' | 'ropes' | 'textKinds'> & {
  readonly layers: readonly NativeLayer[];
  readonly ropes: readonly { readonly inverseFrequencies: Float64Array; readonly magnitude: number }[];
  /** The first row of the spec's `textKinds`. */
  readonly textKind: Float32Array | undefined;
};

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

/** Also says which rows fill each matrix that it adds. */
export function nativeModel(
  spec: ModelSpec,
  weights: WeightSource,
  outputFactors: ReadonlyMap<AdditionSpec, OutputFactors>,
  addMatrix: AddMatrix,
): { readonly model: NativeModel; readonly matrices: readonly MatrixUpload[] } {
  const converter = new Converter(weights, outputFactors, addMatrix);
  return { model: converter.model(spec), matrices: converter.matrices };
}

class Converter {
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
    const { layers, ropes, textKinds, head, ...others } = spec;
    const converted = this.#convert(others);
    return {
      ...converted,
      ropes: ropes.map(({ inverseFrequencies, magnitude }) => ({
        inverseFrequencies: Float64Array.from(inverseFrequencies),
        magnitude,
      })),
      textKind: textKinds && readFloats(this.#weights, textKinds.tensor).slice(0, spec.hiddenSize),
      layers: layers.map((layer) => this.#layer(layer)),
      head: isHeadTied(spec) ? this.#linear([head], converted.embedding.matrix) : this.#linear([head]),
    };
  }

  #convert<Spec>(spec: Spec): Native<Spec> {
    return mapLeaves<Spec, NativeLeaves>(spec, {
      linear: (linear) => this.#linear([linear]),
      norm: (norm) => readNorm(this.#weights, norm),
      vector: (vector) => readVector(this.#weights, vector),
      table: (table) => ({
        matrix: this.#matrix([{ weight: table, columns: table.columns }]),
        rows: table.rows,
      }),
    });
  }

  #layer({ branches, ...layer }: LayerSpec): NativeLayer {
    return {
      ...this.#convert(layer),
      branches: branches.map(({ parts, ...branch }) => ({
        ...this.#convert(branch),
        parts: parts.map((part) => this.#part(part)),
      })),
    };
  }

  #part({ body, ...part }: PartSpec): NativePart {
    const converted = body.kind === 'moe' ? this.#experts(body) : this.#convert(body);
    return { ...this.#convert(part), body: converted };
  }

  /** Experts are alike but for their weights: one with a member for each. */
  #experts({ kind, router, experts, ...others }: MoeSpec): NativeExperts {
    const { linear, ...routing } = router;
    const linears = experts.map((expert) => leavesOf(expert, 'linear'));
    let next = 0;
    const each = mapLeaves<MlpSpec, NativeLeaves>(experts[0] as MlpSpec, {
      ...noOtherLeaves,
      linear: () => {
        const members = linears.map((own) => own[next] as LinearSpec);
        next++;
        return this.#linear(members);
      },
    });
    return {
      kind,
      ...others,
      count: experts.length,
      // Which expert is best should not hang on activations of eight bits.
      router: { ...this.#convert(routing), linear: this.#linear([linear], this.#matrix([linear], true)) },
      each,
    };
  }

  /** Several are the members of one. */
  #linear(specs: readonly LinearSpec[], matrix = this.#membersMatrix(specs)): NativeLinear {
    return { matrix, bias: this.#bias(specs), additions: this.#additions(specs) };
  }

  #membersMatrix(specs: readonly LinearSpec[]): number {
    const { weight, columns, members = 1 } = specs[0] as LinearSpec;
    if (members === 1) return this.#matrix(specs);
    const rows = weight.rows / members;
    const all = Array.from({ length: members }, (_, index) => ({
      slice: weight,
      firstRow: index * rows,
      rows,
    }));
    return this.#addUpload(all, columns);
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
}

function noLeaf(): never {
  throw new Error('an expert has linear maps alone');
}

const noOtherLeaves = { norm: noLeaf, vector: noLeaf, table: noLeaf };

function joined(parts: readonly Float32Array[]): Float32Array {
  const all = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
