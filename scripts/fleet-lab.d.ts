/** Why there can be none here, if there cannot. */
export function labRefusal(): string | undefined;

/** See fleet-lab.js. */
export class FleetLab {
  readonly folder: string;
  readonly servers: string[];
  readonly database: string;
  address(name: string): string;
  url(name: string): string;
  log(name: string): string;
  addHost(name: string): void;
  cut(name: string): void;
  mend(name: string): void;
  kill(name: string, signal?: NodeJS.Signals): Promise<void>;
  startNats(): Promise<void>;
  runNats(name: string): void;
  startPostgres(): Promise<void>;
  runPostgres(): Promise<void>;
  stopPostgres(mode?: 'fast' | 'immediate'): Promise<void>;
  createKey(name: string, ...flags: string[]): string;
  usage(key?: string): { requests: number; promptTokens: number; completionTokens: number }[];
  startNode(name: string, ...flags: string[]): Promise<void>;
  runNode(name: string, ...flags: string[]): Promise<void>;
  runServer(name: string, ...flags: string[]): Promise<void>;
  processorSeconds(name: string): number;
  stop(): Promise<void>;
}
