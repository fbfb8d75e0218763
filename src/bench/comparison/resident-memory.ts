// The most memory that this process has had resident during a measurement.

const PAUSE_MS = 20;

/** Looks every few milliseconds until the returned function is called, which tells the most that was seen. */
export function watchResidentMemory(): () => number {
  let mostBytes = process.memoryUsage.rss();
  const look = () => {
    mostBytes = Math.max(mostBytes, process.memoryUsage.rss());
  };
  const timer = setInterval(look, PAUSE_MS);
  return () => {
    clearInterval(timer);
    look();
    return mostBytes;
  };
}
