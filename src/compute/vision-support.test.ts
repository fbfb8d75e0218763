import { expect, it } from 'vitest';
import { tinyModel } from '../../test/support/tiny-model.ts';
import type { VisionSpec } from '../model/vision/vision-spec.ts';
import { chooseBackend } from './choose-backend.ts';

it.each(['cuda'] as const)('a backend without towers refuses a spec that has one: %s', async (name) => {
  let choice: ReturnType<typeof chooseBackend>;
  try {
    choice = chooseBackend(name);
  } catch {
    // Where there is no addon, there is no such backend.
    return;
  }
  const { spec, weights } = tinyModel();
  const seeing = { ...spec, vision: {} as VisionSpec };
  await expect(choice.create(seeing, weights, { blockCount: 1 })).rejects.toThrow(
    `the ${name} backend does not run vision towers`,
  );
});
