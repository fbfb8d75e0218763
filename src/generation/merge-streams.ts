// Several streams read as one, in the order their values come. An abort ends it at once with the signal's
// reason, even where no stream moves.

export async function* mergeStreams<Value>(
  streams: readonly AsyncGenerator<Value, void, void>[],
  signal: AbortSignal,
): AsyncGenerator<readonly [stream: number, value: Value], void, void> {
  const ready: (readonly [number, Value])[] = [];
  let open = streams.length;
  let failure: { readonly error: unknown } | undefined;
  let wake: (() => void) | undefined;
  const abort = () => {
    failure ??= { error: signal.reason };
    wake?.();
  };
  const pump = async (stream: AsyncGenerator<Value, void, void>, index: number) => {
    try {
      for await (const value of stream) {
        ready.push([index, value]);
        wake?.();
      }
    } catch (error) {
      failure ??= { error };
    }
    open--;
    wake?.();
  };
  signal.addEventListener('abort', abort, { once: true });
  try {
    // Streams are read to their end whatever happens here, so that none is left open.
    for (const [index, stream] of streams.entries()) pump(stream, index);
    if (signal.aborted) abort();
    while (open > 0 || ready.length > 0 || failure !== undefined) {
      if (failure !== undefined) throw failure.error;
      yield* ready.splice(0);
      if (ready.length > 0 || failure !== undefined || open === 0) continue;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
      wake = undefined;
    }
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
