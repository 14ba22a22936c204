package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const servedWithin = 60 * time.Second

// untilServed waits until every client has had a success, so that the beginning is not counted into what follows.
func (a *clients) untilServed(ctx context.Context) error {
	names := []string{"writer", "churn", "apply", "elector", "kubectl", "controller", "provider", "informer by id", "informer by path"}
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
