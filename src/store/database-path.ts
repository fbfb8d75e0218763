// Where the embedded database lies where nobody says otherwise, and the one that lies nowhere.

import { homedir } from 'node:os';
import { join } from 'node:path';

export const IN_MEMORY = ':memory:';

export function defaultDatabasePath(): string {
  return join(homedir(), '.chairlift', 'chairlift.db');
}
