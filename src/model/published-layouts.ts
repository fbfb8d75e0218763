// How publishers name, cut and sort the matrices of one model, whatever the file at hand does: an adapter may come from another
// publisher than the model it is for.

import { ModelFileError } from '../weights/model-file-error.ts';
import type { OpenedModel } from '../weights/open-model.ts';
import { linearsByPlace } from './adaptable-linears.ts';
import { describeModel } from './build-spec.ts';
import { expectedSizes } from './check-tensors.ts';
import type { LinearSpec, ModelSpec } from './spec.ts';
import { bodiesOf } from './spec-walk.ts';
import type { ExpertLayout, Publisher } from './tensor-names.ts';

export interface MatrixLayout {
  /** By place: see adaptable-linears.ts. */
  readonly linears: ReadonlyMap<string, LinearSpec>;
  readonly embedding: string;
  readonly rowsOf: (tensor: string) => number | undefined;
}

export function layoutOf(spec: ModelSpec): MatrixLayout {
  const sizes = expectedSizes(spec);
  const { embedding } = spec;
  return {
    linears: linearsByPlace(spec),
    embedding: embedding.tensor,
    rowsOf: (tensor) => sizes.get(tensor)?.rows,
  };
}

const layouts: Readonly<Record<Publisher, readonly [ExpertLayout, ...ExpertLayout[]]>> = {
  gguf: ['stacked', 'stacked with gates and ups in one', 'each'],
  'hugging-face': ['each', 'stacked', 'stacked with gates and ups in one'],
  mlx: ['switch'],
};

/** None where the model's own header does not say enough. */
export function publishedLayouts(opened: OpenedModel, publisher: Publisher): MatrixLayout[] {
  const { architecture, config, sizes } = describeModel(opened);
  const naming = publisher === 'gguf' ? 'gguf' : 'hugging-face';
  try {
    const source = { architecture: architecture.name, config, sizes, naming, opened } as const;
    const built = (expertLayout: ExpertLayout) =>
      architecture.build({ ...source, published: { publisher, expertLayout } });
    const [first, ...others] = layouts[publisher];
    const spec = built(first);
    const hasExperts = bodiesOf(spec).some(({ kind }) => kind === 'moe');
    return [spec, ...(hasExperts ? others.map(built) : [])].map(layoutOf);
  } catch (error) {
    if (error instanceof ModelFileError) return [];
    throw error;
  }
}
