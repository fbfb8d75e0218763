// Where the database lies where nobody says otherwise.

import { homedir } from 'node:os';
import { join } from 'node:path';

export function defaultDatabasePath(): string {
  return join(homedir(), '.chairlift', 'chairlift.db');
}
