package main

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is one that two candidates stand for.
type lease struct {
	Name string `json:"name"`
	// Terms that began; the first is no loss.
	Terms int `json:"terms"`
	// Lost: terms that ended although the program went on.
	Lost []lost `json:"lost"`
	// Overlaps: times at which both candidates took themselves for the leader.
	Overlaps []int64 `json:"overlaps"`

	mu      sync.Mutex
	leaders int
}

type lost struct {
	At int64  `json:"at"` // ms since the epoch
	Of string `json:"of"`
}

// pace is how a lease is renewed. `usual` is what controllers of Kubernetes use.
type pace struct{ duration, deadline, retry time.Duration }

var paces = map[string]pace{
	"usual": {15 * time.Second, 10 * time.Second, 2 * time.Second},
	"brisk": {6 * time.Second, 4 * time.Second, time.Second},
	"tight": {3 * time.Second, 2 * time.Second, 500 * time.Millisecond},
}

// stand makes a candidate stand for the lease until the context ends.
func (l *lease) stand(ctx context.Context, c *client, identity string, p pace) {
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: l.Name, Namespace: namespace},
		Client:     c.typed.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	for ctx.Err() == nil {
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: p.duration, RenewDeadline: p.deadline, RetryPeriod: p.retry, Name: l.Name,
			ReleaseOnCancel: true,
			Callbacks:       l.callbacks(ctx, identity),
		})
	}
}

func (l *lease) callbacks(ctx context.Context, identity string) leaderelection.LeaderCallbacks {
	var hasLed bool
	return leaderelection.LeaderCallbacks{
		OnStartedLeading: func(context.Context) {
			l.mu.Lock()
			defer l.mu.Unlock()
			hasLed = true
			l.Terms++
			l.leaders++
			if l.leaders > 1 {
				l.Overlaps = append(l.Overlaps, time.Now().UnixMilli())
			}
		},
		OnStoppedLeading: func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if !hasLed {
				return
			}
			hasLed = false
			l.leaders--
			if ctx.Err() == nil {
				l.Lost = append(l.Lost, lost{At: time.Now().UnixMilli(), Of: identity})
			}
		},
	}
}

func (l *lease) report() *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &lease{Name: l.Name, Terms: l.Terms, Lost: append([]lost{}, l.Lost...), Overlaps: append([]int64{}, l.Overlaps...)}
}
