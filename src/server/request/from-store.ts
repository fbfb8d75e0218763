// What the database cannot do now, as clients should hear it.

import { StoreError } from '../../store/store-error.ts';
import { ApiError } from '../http/errors.ts';

/** `what`: of which it is said that it cannot be read or changed. */
export async function fromStore<Result>(
  what: string,
  action: () => Result | Promise<Result>,
): Promise<Result> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    const message = `${what} cannot be read or changed now; try again`;
    throw new ApiError(503, message, { code: 'store_unavailable', headers: { 'retry-after': '5' } });
  }
}
