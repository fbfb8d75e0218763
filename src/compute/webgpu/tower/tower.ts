// A vision tower on the GPU, described once for a model: the kernels of each operation that its programs may have. They read and
// write the rows of whichever view is at hand, a piece at a time, and work in the buffers of steps, between steps.

import type { PreprocessingSpec } from '../../../model/vision/preprocessing.ts';
import type {
  JoinSpec,
  PatchStep,
  TowerBranchSpec,
  TowerStep,
  VisionSpec,
} from '../../../model/vision/vision-spec.ts';
import { readVector } from '../../../model/weight-reader.ts';
import type { WeightSource } from '../../../weights/weight-source.ts';
import type { Join } from '../../tower/join-views.ts';
import { flatSteps, type TowerOperation } from '../../tower/program.ts';
import type { Declared } from '../declared.ts';
import type { LayerBuilder } from '../linears.ts';
import { ReplaceableBuffer } from '../memory.ts';
import type { Operation } from '../operation.ts';
import type { Programs } from '../programs.ts';
import { patchSize } from './patch-rows.ts';
import { type TowerBuffers, TowerKernels } from './tower-kernels.ts';

type Step<Kind> = Extract<TowerStep, { readonly kind: Kind }>;
type Operations = Declared<readonly Operation[]>;

/** What has a place in a program. */
type Use = Pick<TowerOperation, 'kind' | 'step'> & { readonly branch?: number; readonly table?: number };

export class Tower {
  readonly steps: readonly TowerStep[];
  readonly preprocessing: PreprocessingSpec;
  /** Steps as its programs count them. */
  readonly flat: readonly TowerStep[];
  readonly buffers: TowerBuffers;
  readonly join: Declared<Join>;
  readonly #builder: LayerBuilder;
  readonly #kernels: TowerKernels;
  readonly #operations = new Map<string, Operations>();
  readonly #copy: Operations;
  #compiled: Promise<void> | undefined;

  constructor(builder: LayerBuilder, { tower, preprocessing }: VisionSpec) {
    this.#builder = builder;
    this.steps = tower.steps;
    this.preprocessing = preprocessing;
    this.flat = flatSteps(tower.steps);
    const patches = this.flat.find((step) => step.kind === 'patches') as PatchStep;
    this.buffers = {
      view: replaceable(builder, 'tower view'),
      lists: replaceable(builder, 'tower lists'),
      patches: builder.scratch('tower patches', patchSize(patches)),
    };
    this.#kernels = new TowerKernels(builder, this.buffers);
    this.join = builder.declare('join of views', async ({ loader }) => loadJoin(tower.join, loader.weights));
    this.#copy = this.#gather('cells');
    for (const [step, spec] of this.flat.entries()) this.#describe(step, spec);
  }

  operationsOf(operation: TowerOperation): readonly Operation[] {
    const own = this.#operations.get(keyOf(operation));
    // Rows that are changed in place while others still read them are copied first.
    const found = own ?? (operation.kind === 'gather' ? this.#copy : undefined);
    if (found === undefined)
      throw new Error(`a tower has no ${operation.kind} at its step ${operation.step}`);
    return found.value;
  }

  /** For views that take the place of the one before. */
  rebind(): void {
    for (const operation of this.#all()) operation.rebind();
  }

  /** Compiles all kernels, once: not at the start, where nobody may ever send a picture. */
  compile(programs: Programs): Promise<void> {
    if (this.#compiled === undefined) {
      for (const operation of this.#all()) operation.compile(programs);
      this.#compiled = programs.ready();
    }
    return this.#compiled;
  }

  #all(): readonly Operation[] {
    return [this.#copy, ...this.#operations.values()].flatMap(({ value }) => value);
  }

  #add(use: Use, describe: () => void): void {
    this.#operations.set(keyOf(use), this.#builder.apart(`tower ${use.kind}`, describe));
  }

  #gather(...how: Parameters<TowerKernels['gather']>): Operations {
    return this.#builder.apart('tower gather', () => this.#kernels.gather(...how));
  }

  #describe(step: number, spec: TowerStep): void {
    switch (spec.kind) {
      case 'patches':
        this.#add({ kind: 'patches', step }, () => this.#kernels.patches(spec));
        break;
      case 'linear':
        this.#add({ kind: 'rows', step }, () => this.#kernels.linear(spec));
        break;
      case 'feed-forward':
        this.#add({ kind: 'rows', step }, () =>
          this.#kernels.mlp(spec.mlp, this.#kernels.rows(spec.mlp.up.columns, undefined), { adds: false }),
        );
        break;
      case 'norm':
        this.#add({ kind: 'rows', step }, () => this.#kernels.norm(spec));
        break;
      case 'activation':
      case 'affine':
        this.#add({ kind: 'rows', step }, () => this.#kernels.change(spec, undefined, []));
        break;
      case 'standardize':
        this.#add({ kind: 'rows', step }, () => {
          const vectors = this.#builder.vectors('standardization', [spec.shifts, spec.scales]);
          this.#kernels.change({ kind: 'standardize' }, spec.shifts.size, vectors);
        });
        break;
      case 'class-token':
        this.#operations.set(keyOf({ kind: 'gather', step }), this.#gather('cells', spec.token));
        break;
      case 'merge':
        this.#operations.set(keyOf({ kind: 'gather', step }), this.#gather(spec.order));
        break;
      case 'pool':
        this.#operations.set(keyOf({ kind: 'gather', step }), this.#gather('mean'));
        break;
      case 'position-table':
      case 'position-grid':
        this.#add({ kind: 'table', step, table: 0 }, () => this.#kernels.table(spec.table));
        break;
      case 'position-axes':
        for (const [table, own] of [spec.rows, spec.columns].entries()) {
          this.#add({ kind: 'table', step, table }, () => this.#kernels.table(own));
        }
        break;
      case 'layer':
        for (const [branch, own] of spec.branches.entries()) this.#describeBranch(step, spec, branch, own);
        break;
      case 'drop-class-token':
      case 'deepstack':
        break;
    }
  }

  #describeBranch(step: number, { epsilon }: Step<'layer'>, branch: number, spec: TowerBranchSpec): void {
    const { body, input, output, scales } = spec;
    const norm = output && { spec: output, epsilon };
    if (body.kind === 'tower-mlp') {
      this.#add({ kind: 'mlp', step, branch }, () => {
        const source = this.#kernels.rows(body.up.columns, input && { spec: input, epsilon });
        this.#kernels.mlp(body, source, { adds: true, norm, scales });
      });
      return;
    }
    this.#add({ kind: 'project', step, branch }, () =>
      this.#kernels.project(
        body,
        this.#kernels.rows(body.query.columns, input && { spec: input, epsilon }),
        epsilon,
      ),
    );
    this.#add({ kind: 'attend', step, branch }, () =>
      this.#kernels.attend(body, { adds: true, norm, scales }),
    );
  }
}

const keyOf = ({ kind, step, branch, table }: Use): string => [kind, step, branch, table].join();

function replaceable(builder: LayerBuilder, label: string): Declared<ReplaceableBuffer> {
  return builder.declare(
    label,
    async ({ loader }) => new ReplaceableBuffer(await loader.memory.storage(label, 16)),
  );
}

function loadJoin(join: JoinSpec, weights: WeightSource): Join {
  return join.kind === 'sequence' ? join : { ...join, newline: readVector(weights, join.newline) };
}
