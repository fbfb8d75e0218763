// What a test has opened, and is closed after it, the last first.

export const opened: (() => Promise<void> | void)[] = [];
