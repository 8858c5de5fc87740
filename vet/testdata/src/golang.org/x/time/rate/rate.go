package rate

import "context"

type Limit float64

type Limiter struct{}

func NewLimiter(r Limit, b int) *Limiter { return nil }

func (*Limiter) Wait(ctx context.Context) error { return nil }
