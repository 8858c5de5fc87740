package main

import (
	"context"
	"fmt"
)

// result is an exchange with the differences of a server's answer from the recorded one.
type result struct {
	script      *script
	exchange    *exchange
	got         *answer
	differences []difference
}

// play runs scripts on a server, one after another, and returns a result for each exchange.
func play(ctx context.Context, to *server, scripts []*script) ([]result, error) {
	var results []result
	for _, s := range scripts {
		r, err := start(ctx, to, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", to.name, s.name, err)
		}
		for _, e := range s.exchanges() {
			got, err := r.do(ctx, e)
			if err != nil {
				r.close()
				return nil, fmt.Errorf("%s: %s/%s: %w", to.name, s.name, e.name, err)
			}
			result := result{script: s, exchange: e, got: got}
			if e.recorded != nil {
				result.differences = compare(e.recorded, got)
			}
			results = append(results, result)
		}
		r.close()
	}
	return results, nil
}
