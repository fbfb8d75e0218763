// Waiting for what Dawn promises. Its Node binding polls in every turn of the event loop and leaves an object behind each
// time. A turn takes microseconds, so that single steps were held up by the collection of what many had left. While
// something is awaited, turns are therefore made to last.

/** The system adds about as much; what is awaited is seen half a turn late. */
const TURN_MS = 0.05;

const never = new Int32Array(new SharedArrayBuffer(4));

/** Awaits a promise of Dawn's in turns of the event loop that last; messages and timers come in between them. */
export async function inSlowTurns<T>(promise: Promise<T>): Promise<T> {
  let isWaiting = true;
  const turn = () => {
    if (!isWaiting) return;
    Atomics.wait(never, 0, 0, TURN_MS);
    setImmediate(turn);
  };
  setImmediate(turn);
  try {
    return await promise;
  } finally {
    isWaiting = false;
  }
}
