import { expect, it } from 'vitest';
import type { ImageRun } from '../../compute/backend.ts';
import { BackendFailedError, ImageTooLargeError } from '../../compute/image-failures.ts';
import type { ImageInput } from '../../model/vision/vision-spec.ts';
import { ImageRuns } from './image-runs.ts';

const vision = { hiddenSize: 2, deepstackLayers: 0, bothWays: undefined };
const input: ImageInput = { views: [], tiles: { rows: 1, columns: 1, picture: { width: 1, height: 1 } } };

/** A device with memory for some images at once, whose tower takes two pieces for each. */
function device(room: number) {
  const open = new Set<ImageRun>();
  const begun: ImageRun[] = [];
  const begin = (): ImageRun => {
    let left = 2;
    const run = {
      get left() {
        return left;
      },
      get features() {
        return left > 0 ? undefined : { embeddings: Float32Array.of(1, 2), deepstack: [] };
      },
      async advance() {
        if (!open.has(run) && open.size === room) throw new Error('no room');
        open.add(run);
        left--;
      },
      close: () => void open.delete(run),
    };
    begun.push(run);
    return run;
  };
  return { begun, open, runs: new ImageRuns(begin, vision, () => 0) };
}

it('gives an image that finds no memory that of others, which begin anew', async () => {
  const { runs, begun, open } = device(1);
  expect(await runs.advance('a', input, 1)).toBeUndefined();
  expect(await runs.advance('b', input, 1)).toBeUndefined();
  expect(open.size).toBe(0);
  expect(await runs.advance('b', input, 1)).toBeUndefined();
  expect(await runs.advance('b', input, 1)).toMatchObject({ deepstack: [] });
  runs.close('b');
  expect(await runs.advance('a', input, 1)).toBeUndefined();
  expect(await runs.advance('a', input, 1)).toMatchObject({ deepstack: [] });
  expect(begun).toHaveLength(3);
});

it('ends an image that finds no memory though it is alone', async () => {
  const outcome = await device(0).runs.advance('a', input, 1);
  expect(outcome).toEqual({ code: 'engine-failed', message: 'the vision tower failed: no room' });
});

function failing(error: Error): ImageRuns {
  const run: ImageRun = { left: 1, features: undefined, advance: () => Promise.reject(error), close() {} };
  return new ImageRuns(
    () => run,
    vision,
    () => 0,
  );
}

it('blames an image for what no device like this one could hold, and takes no memory from others', async () => {
  const runs = failing(new ImageTooLargeError('it takes 5 bytes'));
  expect(await runs.advance('a', input, 1)).toEqual({ code: 'invalid', message: 'it takes 5 bytes' });
});

it('blames no image for a backend that has failed', async () => {
  const runs = failing(new BackendFailedError('the GPU was lost'));
  await expect(runs.advance('a', input, 1)).rejects.toThrow('the GPU was lost');
});
