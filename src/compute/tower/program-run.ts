// A picture on its way through a tower, view after view, operation after operation, in pieces of rows: for backends that run programs.

import type { PreprocessingSpec } from '../../model/vision/preprocessing.ts';
import type { ImageInput, ImageView, TowerStep } from '../../model/vision/vision-spec.ts';
import type { ImageFeatures, ImageRun } from '../backend.ts';
import { compileProgram } from './compile-program.ts';
import { type FeatureCells, type Join, joinViews } from './join-views.ts';
import { programWork, type TowerOperation, type TowerProgram } from './program.ts';

/** A view whose program a backend runs. */
export interface ViewRun {
  /** Some rows of an operation, which may not be done yet. */
  run(operation: number, firstRow: number, count: number): Promise<void>;
  /** Waits for them, where `run` does not. */
  settle?(): Promise<void>;
  /** Values of an output, once all operations are done. */
  read(output: number, into: Float32Array): Promise<void>;
  /** Gives its memory back. */
  close(): void;
}

export type BeginView = (program: TowerProgram, view: ImageView) => ViewRun;

/** Fewer rows at a time waste what is read of the weights; more would need much memory, and keep others waiting. */
const LEAST_ROWS = 16;
const MOST_ROWS = 512;

interface OpenView {
  readonly program: TowerProgram;
  readonly run: ViewRun;
  operation: number;
  row: number;
}

export class ProgramRun implements ImageRun {
  readonly #image: ImageInput;
  readonly #programs: readonly TowerProgram[];
  readonly #join: Join;
  readonly #begin: BeginView;
  /** Outputs of views that are done. */
  readonly #done: FeatureCells[][] = [];
  #view: OpenView | undefined;
  #left: number;
  #isRunning = false;
  #isClosed = false;
  features: ImageFeatures | undefined;

  constructor(
    image: ImageInput,
    { steps, join }: { readonly steps: readonly TowerStep[]; readonly join: Join },
    preprocessing: PreprocessingSpec,
    begin: BeginView,
  ) {
    this.#image = image;
    this.#join = join;
    this.#begin = begin;
    this.#programs = programsOf(image.views, (view) => compileProgram(steps, preprocessing, view));
    this.#left = this.#programs.reduce((sum, program) => sum + programWork(program), 0);
  }

  get left(): number {
    return this.features === undefined ? Math.max(1, this.#left) : 0;
  }

  async advance(work: number): Promise<void> {
    if (this.#isRunning) throw new Error('a piece of the image is still computed; await it before the next');
    this.#isRunning = true;
    try {
      let left = work;
      do left -= await this.#runPiece(left);
      while (left > 0 && this.features === undefined);
      await this.#view?.run.settle?.();
    } finally {
      this.#isRunning = false;
      if (this.#isClosed) this.#closeView();
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#done.length = 0;
    if (!this.#isRunning) this.#closeView();
  }

  /** Returns how much work it was. */
  async #runPiece(most: number): Promise<number> {
    if (this.#isClosed) throw new Error('the image is closed');
    if (this.features !== undefined) return 0;
    const view = this.#openView();
    const { to, work } = view.program.operations[view.operation] as TowerOperation;
    const wanted = Math.min(MOST_ROWS, Math.max(LEAST_ROWS, Math.floor(most / work)));
    const count = Math.min(to.rows - view.row, wanted);
    await view.run.run(view.operation, view.row, count);
    view.row += count;
    this.#left -= count * work;
    if (view.row === to.rows) {
      view.operation++;
      view.row = 0;
    }
    if (view.operation === view.program.operations.length) await this.#endView(view);
    return count * work;
  }

  #openView(): OpenView {
    const index = this.#done.length;
    const program = this.#programs[index] as TowerProgram;
    const view = this.#image.views[index] as ImageView;
    this.#view ??= { program, run: this.#begin(program, view), operation: 0, row: 0 };
    return this.#view;
  }

  async #endView({ program, run }: OpenView): Promise<void> {
    const outputs: FeatureCells[] = [];
    for (const [index, { rows, columns, size }] of program.outputs.entries()) {
      const values = new Float32Array(rows * size);
      await run.read(index, values);
      outputs.push({ rows: rows / columns, columns, size, values });
    }
    this.#closeView();
    this.#done.push(outputs);
    if (this.#done.length < this.#programs.length) return;
    const joined = (output: number) =>
      joinViews(
        this.#join,
        this.#done.map((one) => one[output] as FeatureCells),
        this.#image.tiles,
      );
    this.features = {
      embeddings: joined(0),
      deepstack: outputs.slice(1).map((_, layer) => joined(layer + 1)),
    };
    this.#done.length = 0;
  }

  #closeView(): void {
    this.#view?.run.close();
    this.#view = undefined;
  }
}

/** Views of the same size share theirs. */
function programsOf(
  views: readonly ImageView[],
  compile: (view: ImageView) => TowerProgram,
): readonly TowerProgram[] {
  const bySize = new Map<string, TowerProgram>();
  return views.map((view) => {
    const size = `${view.width}x${view.height}`;
    const program = bySize.get(size) ?? compile(view);
    bySize.set(size, program);
    return program;
  });
}
