import { describe, expect, it } from 'vitest';
import { CounterWatch, idleDifferences, parseCounters, sumOf } from './counters.ts';

const scrape = (preemptions: number, responses: number, running = 3) => `
# HELP chairlift_preemptions_total Sequences that had to give their blocks back
# TYPE chairlift_preemptions_total counter
chairlift_preemptions_total{model="demo"} ${preemptions}
# TYPE chairlift_responses_total counter
chairlift_responses_total{status="200"} ${responses}
# TYPE chairlift_running_sequences gauge
chairlift_running_sequences{model="demo"} ${running}
chairlift_running_sequences{model="tiny"} 1
# TYPE chairlift_step_seconds histogram
chairlift_step_seconds_bucket{le="0.1",model="demo"} 4
chairlift_step_seconds_sum{model="demo"} 0.25
chairlift_step_seconds_count{model="demo"} 5
`;

describe('counters', () => {
  it('are told from gauges', () => {
    const counters = parseCounters(scrape(2, 9));
    expect(counters.get('chairlift_preemptions_total{model="demo"}')).toBe(2);
    expect(counters.get('chairlift_step_seconds_bucket{le="0.1",model="demo"}')).toBe(4);
    expect([...counters.keys()].some((name) => name.includes('running'))).toBe(false);
  });

  it('that fall are found once, and so is one that had been doubled', () => {
    const watch = new CounterWatch();
    const look = (...preemptions: number[]) =>
      watch.look(preemptions.map((n) => parseCounters(scrape(n, 1))));
    expect(look(4)).toEqual([]);
    expect(look(5, 10)).toEqual([]);
    expect(look(5)).toEqual(['chairlift_preemptions_total{model="demo"} fell from 10 to 5']);
    expect(look(5)).toEqual([]);
    expect(look(6, 0)).toHaveLength(1);
  });

  it('of an idle server stand still, but for the scrapes themselves', () => {
    expect(idleDifferences(parseCounters(scrape(2, 9)), parseCounters(scrape(2, 10)))).toEqual([]);
    expect(idleDifferences(parseCounters(scrape(2, 9)), parseCounters(scrape(4, 10)))).toHaveLength(1);
  });

  it('and gauges add up over their labels', () => {
    expect(sumOf(scrape(1, 1), 'chairlift_running_sequences')).toBe(4);
    expect(sumOf(scrape(1, 1), 'chairlift_running_sequences', 'model="tiny"')).toBe(1);
    expect(sumOf(scrape(1, 1), 'chairlift_nothing')).toBeUndefined();
  });
});
