// Converts a ModelSpec to the addon's format: the same tree, with matrices by number, and norms and vectors read from the file.

import { leavesOf, type MapLeaves, mapLeaves } from '../../model/leaves.ts';
import type { OutputFactors } from '../../model/output-factors.ts';
import type {
  AdditionSpec,
  LinearSpec,
  MatrixSpec,
  ModelSpec,
  MoeSpec,
  RowSlice,
  TableSpec,
} from '../../model/spec.ts';
import { bodiesOf, isHeadTied } from '../../model/spec-walk.ts';
import type { TowerStep } from '../../model/vision/vision-spec.ts';
import { type NormWeights, readBias, readNorm, readVector, rowType } from '../../model/weight-reader.ts';
import { ModelFileError } from '../../weights/model-file-error.ts';
import { type TensorType, tensorLayouts } from '../../weights/tensor-type.ts';
import { readFloats, type WeightSource } from '../../weights/weight-source.ts';
import { joinedFloats } from '../join-arrays.ts';
import { flatSteps } from '../tower/program.ts';

interface NativeLinear extends Pick<LinearSpec, 'bounds'> {
  /** Of the tensor, that of the first member. */
  readonly name: string;
  /** What `addMatrix` gave. */
  readonly matrix: number;
  /** Of all members. */
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

interface NativeNorm extends NormWeights {
  readonly size: number;
}

interface NativeLeaves {
  /** Undefined for experts after the first, whose matrices are members of those of the first. */
  readonly linear: NativeLinear | undefined;
  readonly norm: NativeNorm;
  readonly vector: Float32Array;
  readonly table: NativeTable;
}

export type NativeModel = Omit<MapLeaves<ModelSpec, NativeLeaves>, 'textKinds' | 'vision'> & {
  /** The first row of the spec's `textKinds`. */
  readonly textKind: Float32Array | undefined;
  /** Steps of the vision tower, flat, where there is one. */
  readonly tower: readonly MapLeaves<TowerStep, NativeLeaves>[] | undefined;
};

export interface MemberRows {
  readonly slice: RowSlice;
  readonly firstRow: number;
  readonly rows: number;
}

export interface MatrixUpload {
  readonly matrix: number;
  readonly type: TensorType;
  readonly columns: number;
  readonly members: readonly MemberRows[];
  /** Rows are decoded to float32. */
  readonly decoded: boolean;
}

type AddMatrix = (type: TensorType, outputs: number, inputs: number, members: number) => number;

/** Additions of one adapter to consecutive members. */
interface AdditionRun {
  readonly firstMember: number;
  readonly additions: AdditionSpec[];
}

/** `matrices` are the rows that fill each matrix that it adds. */
export function nativeModel(
  spec: ModelSpec,
  weights: WeightSource,
  outputFactors: ReadonlyMap<AdditionSpec, OutputFactors>,
  addMatrix: AddMatrix,
): { readonly model: NativeModel; readonly matrices: readonly MatrixUpload[] } {
  const converter = new Converter(weights, outputFactors, addMatrix);
  return { model: converter.model(spec), matrices: converter.matrices };
}

/** Linear maps of experts become members of one: maps those of the first expert to all members, those of others to none. */
function stackedLinears(mixtures: readonly MoeSpec[]): ReadonlyMap<LinearSpec, readonly LinearSpec[]> {
  return new Map<LinearSpec, readonly LinearSpec[]>(
    mixtures.flatMap(({ experts }) => {
      const [first = [], ...others] = experts.map((expert) => leavesOf(expert, 'linear'));
      return [
        ...others.flat().map((linear) => [linear, []] as const),
        ...first.map(
          (linear, at) => [linear, [linear, ...others.map((own) => own[at] as LinearSpec)]] as const,
        ),
      ];
    }),
  );
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

  model({ textKinds, vision, ...spec }: ModelSpec): NativeModel {
    const mixtures = bodiesOf(spec).filter((body) => body.kind === 'moe');
    const routers = new Set(mixtures.map(({ router }) => router.linear));
    const stacked = stackedLinears(mixtures);
    const embedding = this.#table(spec.embedding);
    const linear = (own: LinearSpec) => {
      if (own === spec.head && isHeadTied(spec)) return this.#linear([own], embedding.matrix);
      // In floats: routing must not depend on activations of eight bits.
      if (routers.has(own)) return this.#linear([own], this.#matrix([own], true));
      const members = stacked.get(own) ?? [own];
      return members.length === 0 ? undefined : this.#linear(members);
    };
    const mappers: Parameters<typeof mapLeaves<typeof spec, NativeLeaves>>[1] = {
      linear,
      norm: (norm) => ({ ...readNorm(this.#weights, norm), size: norm.size }),
      vector: (vector) => readVector(this.#weights, vector),
      table: (table) => (table === spec.embedding ? embedding : this.#table(table)),
    };
    return {
      ...mapLeaves<typeof spec, NativeLeaves>(spec, mappers),
      tower: vision && mapLeaves<TowerStep[], NativeLeaves>(flatSteps(vision.tower.steps), mappers),
      textKind: textKinds && readFloats(this.#weights, textKinds.tensor).slice(0, spec.hiddenSize),
    };
  }

  #table(table: TableSpec): NativeTable {
    return { matrix: this.#matrix([{ weight: table, columns: table.columns }]), rows: table.rows };
  }

  /** Several become the members of one. */
  #linear(specs: readonly LinearSpec[], matrix = this.#membersMatrix(specs)): NativeLinear {
    const [{ weight, bounds }] = specs as readonly [LinearSpec];
    return {
      name: weight.tensor,
      matrix,
      bias: this.#bias(specs),
      additions: this.#additions(specs),
      ...(bounds && { bounds }),
    };
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

  /** One for each run of members that an adapter adds to alike. */
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
            factors: joinedFloats(factors.map((one) => one.factors)),
            shifts: joinedFloats(factors.map((one) => one.shifts)),
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
