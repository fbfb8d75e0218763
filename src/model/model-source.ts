// Where a model comes from, as its family sees it.

import type { OpenedModel } from '../weights/open-model.ts';
import type { Config } from './config.ts';
import type { ModelSizes } from './sizes.ts';
import type { ExpertLayout, Naming, Publisher } from './tensor-names.ts';

export interface ModelSource {
  readonly architecture: string;
  readonly config: Config;
  readonly sizes: ModelSizes;
  /** Who named and sorted the tensors; the header is in the words of `opened.format`. */
  readonly naming: Naming;
  readonly opened: OpenedModel;
  /** Its MTP head is wanted, too, where the file has one. */
  readonly wantsMtp?: boolean;
  /** How a publisher would store the model, whatever the file at hand does: see published-layouts.ts. */
  readonly published?: { readonly publisher: Publisher; readonly expertLayout: ExpertLayout };
}
