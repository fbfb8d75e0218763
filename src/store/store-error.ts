// The one error the store gives: what is wrong with the database and what to do.

/** `refused`: the database answers, and does not let us do it. */
type StoreFault = 'damaged' | 'foreign' | 'newer' | 'busy' | 'unreachable' | 'refused';

export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly fault: StoreFault;

  constructor(fault: StoreFault, message: string, cause?: unknown) {
    super(message, { cause });
    this.fault = fault;
  }
}
