// What drafts for a model, besides its text: whether its MTP head is opened, and what was given in its place.

import type { BackendName } from '../compute/backend.ts';
import type { BuildSpecOptions } from '../model/build-spec.ts';
import { isEagle3Folder } from '../weights/eagle3-files.ts';

interface Choices {
  readonly backend?: BackendName | undefined;
  readonly draftPath?: string | undefined;
  readonly speculation?: boolean | undefined;
}

export interface GivenDrafter {
  readonly draftPath?: string;
  readonly eagle3Path?: string;
}

/** A draft model, or a head for the model itself; nothing where nobody is to draft. Throws where the head cannot be computed. */
export function givenDrafter({ backend, draftPath, speculation = true }: Choices): GivenDrafter {
  if (draftPath === undefined || !speculation) return {};
  if (!isEagle3Folder(draftPath)) return { draftPath };
  if (backend !== 'cuda' && backend !== 'webgpu') return { eagle3Path: draftPath };
  throw new Error(
    `--draft: ${draftPath} is an EAGLE-3 head, which the ${backend} backend cannot compute yet: serve on the processor, or without the head`,
  );
}

/** What was given drafts alone. */
export function mtpChoice({ backend, draftPath, speculation = true }: Choices): BuildSpecOptions['mtp'] {
  if (!speculation || draftPath !== undefined) return false;
  if (backend !== 'cuda' && backend !== 'webgpu') return true;
  return { problem: `the ${backend} backend cannot compute it` };
}
