package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A controller waits up to a minute when it has met many conflicts, and an informer that was refused often half a minute.
const servedWithin = 2 * time.Minute

// active are the clients that ask all the time.
var active = []string{"writer", "churn", "apply", "elector", "kubectl", "controller", "provider"}

// untilServed waits until these clients have had a success, and all informers have synced.
func (a *clients) untilServed(ctx context.Context, names []string) error {
	end := time.Now().Add(servedWithin)
	for {
		missing := a.recorder.unserved(names)
		for _, w := range a.watched {
			if !w.informer.HasSynced() {
				missing = append(missing, w.name)
			}
		}
		if len(missing) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not served in %s: %s", servedWithin, strings.Join(missing, ", "))
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// forgetServed makes untilServed wait for a success that is yet to come.
func (r *recorder) forgetServed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.served)
}

func (r *recorder) unserved(clients []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	missing := []string{}
	for _, client := range clients {
		if !r.served[client] {
			missing = append(missing, client)
		}
	}
	return missing
}
