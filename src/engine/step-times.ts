// Where the time of steps goes, in total and in the last one.

export interface StepTimes {
  readonly scheduleMs: number;
  readonly computeMs: number;
  readonly sampleMs: number;
  readonly emitMs: number;
}

const none: StepTimes = { scheduleMs: 0, computeMs: 0, sampleMs: 0, emitMs: 0 };

export class StepClock {
  #total = none;
  #last = none;

  get total(): StepTimes {
    return this.#total;
  }

  get last(): StepTimes {
    return this.#last;
  }

  add(times: StepTimes): void {
    this.#last = times;
    this.#total = {
      scheduleMs: this.#total.scheduleMs + times.scheduleMs,
      computeMs: this.#total.computeMs + times.computeMs,
      sampleMs: this.#total.sampleMs + times.sampleMs,
      emitMs: this.#total.emitMs + times.emitMs,
    };
  }
}
