// A wait that an abort ends.

/** What the promise gives, unless the signal comes first; whatever it gives then is handed to `late`. */
export async function orAbort<Value>(
  promise: Promise<Value>,
  signal: AbortSignal,
  late?: (value: Value) => void,
): Promise<Value> {
  if (signal.aborted) {
    promise.then(late, () => {});
    throw signal.reason;
  }
  let abort: (() => void) | undefined;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => {
      promise.then(late, () => {});
      reject(signal.reason);
    };
    signal.addEventListener('abort', abort, { once: true });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    if (abort !== undefined) signal.removeEventListener('abort', abort);
  }
}
