// Where traces go, from the settings; undefined where they go nowhere.

import { hostname } from 'node:os';
import { type Config, ConfigError } from '../config.ts';
import { SpanExporter } from '../tracing/span-exporter.ts';
import { Tracer } from '../tracing/tracer.ts';

export interface Tracing {
  readonly tracer: Tracer;
  readonly exporter: SpanExporter;
}

interface TracingSource {
  readonly version: string;
  /** Of a fleet. */
  readonly node: string | undefined;
  readonly onProblem: (message: string) => void;
}

export function openTracing(
  config: Config,
  { version, node, onProblem }: TracingSource,
): Tracing | undefined {
  const { otlpEndpoint, otlpHeaders, traceRatio } = config;
  if (otlpEndpoint === undefined) return undefined;
  const exporter = new SpanExporter({
    url: tracesUrl(otlpEndpoint),
    headers: readHeaders(otlpHeaders ?? ''),
    version,
    resource: {
      'service.name': 'chairlift',
      'service.version': version,
      'service.instance.id': node ?? `${hostname()}:${config.port}`,
      'host.name': hostname(),
    },
    onProblem,
  });
  return { tracer: new Tracer(exporter, traceRatio), exporter };
}

/** As OpenTelemetry has it: the address is that of the collector. */
function tracesUrl(given: string): string {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username !== '' || url.search !== '') {
    throw new ConfigError(
      `--otlp-endpoint: give the address of a collector that speaks OTLP over HTTP, such as http://127.0.0.1:4318, not ${given}`,
    );
  }
  return `${url.href.replace(/\/$/, '')}/v1/traces`;
}

/** `name=value,name=value`, with %-codes for special characters. */
function readHeaders(given: string): Record<string, string> {
  const pairs = given
    .split(',')
    .map((pair) => pair.trim())
    .filter((pair) => pair !== '')
    .map((pair) => {
      const at = pair.indexOf('=');
      const name = pair.slice(0, Math.max(0, at)).trim();
      if (!/^[\w-]+$/.test(name)) {
        throw new ConfigError('--otlp-headers: give name=value, and commas between several');
      }
      return [name, decoded(pair.slice(at + 1).trim())] as const;
    });
  return Object.fromEntries(pairs);
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
