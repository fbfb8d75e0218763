// A repository cloned without Git LFS holds small text files in place of its weights.

import type { FileReader } from './file-reader.ts';
import { ModelFileError } from './model-file-error.ts';

const POINTER_START = 'version https://git-lfs';

export function refuseLfsPointer(file: FileReader): void {
  if (file.size < POINTER_START.length) return;
  if (file.readAt(0, POINTER_START.length, 'start').toString('latin1') !== POINTER_START) return;
  throw new ModelFileError({
    file: file.path,
    field: 'start',
    problem: 'is a Git LFS pointer, not the weights themselves',
    remedy: 'Run "git lfs pull" in the model’s folder, or download the file.',
  });
}
