// How publishers name, cut and sort the matrices of one model, whatever the file at hand does: an adapter may come from another
// publisher than the model it is for.

import { ModelFileError } from '../weights/model-file-error.ts';
import type { OpenedModel } from '../weights/open-model.ts';
import { linearsByPlace } from './adaptable-linears.ts';
import { assembleSpec } from './assemble-spec.ts';
import { describeModel } from './build-spec.ts';
import { expectedSizes } from './check-tensors.ts';
import type { LinearSpec, ModelSpec } from './spec.ts';
import { type ExpertLayout, type Publisher, publishedNames } from './tensor-names.ts';

export interface MatrixLayout {
  /** By place: see adaptable-linears.ts. */
  readonly linears: ReadonlyMap<string, LinearSpec>;
  readonly embedding: string;
  /** Rows of a whole tensor. */
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

const layouts: Readonly<Record<Publisher, readonly ExpertLayout[]>> = {
  gguf: ['stacked', 'stacked with gates and ups in one', 'each'],
  'hugging-face': ['each', 'stacked', 'stacked with gates and ups in one'],
  mlx: ['switch'],
};

/** None where the model's own header does not say enough. */
export function publishedLayouts(opened: OpenedModel, publisher: Publisher): MatrixLayout[] {
  const { architecture, config, sizes } = describeModel(opened);
  const naming = publisher === 'gguf' ? 'gguf' : 'hugging-face';
  try {
    const traits = architecture.traits({ config, sizes, naming, opened });
    const names = publishedNames(publisher, traits.names);
    const parts = { architecture, sizes, traits, names, opened };
    const flags = { tiedHead: false, headless: false, textOnly: false };
    const forms = traits.experts === undefined ? layouts[publisher].slice(0, 1) : layouts[publisher];
    return forms.map((expertLayout) => layoutOf(assembleSpec({ ...parts, ...flags, expertLayout })));
  } catch (error) {
    if (error instanceof ModelFileError) return [];
    throw error;
  }
}
