// What a database is asked and must answer soon.

import { StoreError } from './store-error.ts';

/** Fails as unreachable where it takes longer; what it comes to then is nobody's. */
export async function inTime<Result>(
  name: string,
  limitMs: number,
  action: Promise<Result>,
): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new StoreError('unreachable', `${name} does not answer within ${limitMs} ms.`);
    timer = setTimeout(() => reject(error), limitMs);
  });
  try {
    return await Promise.race([action, late]);
  } finally {
    clearTimeout(timer);
    action.catch(() => {});
  }
}
