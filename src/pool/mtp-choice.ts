// Whether a model's MTP head is opened.

import type { BackendName } from '../compute/backend.ts';
import type { BuildSpecOptions } from '../model/build-spec.ts';

interface Choices {
  readonly backend?: BackendName | undefined;
  readonly draftPath?: string | undefined;
  readonly speculation?: boolean | undefined;
}

/** A draft model that was given drafts alone. */
export function mtpChoice({ backend, draftPath, speculation = true }: Choices): BuildSpecOptions['mtp'] {
  if (!speculation || draftPath !== undefined) return false;
  if (backend !== 'cuda' && backend !== 'webgpu') return true;
  return { problem: `the ${backend} backend cannot compute it` };
}
