package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

var quorumRead = metav1.ListOptions{}

// counter is an object that several writers count up, each its own number and all of them `count`.
type counter struct {
	resource resource
	name     string
	ledger   *ledger
	writers  []*counting

	mu      sync.Mutex
	version uint64 // newest that was acknowledged
}

// counting is one writer of a counter.
type counting struct {
	of           *counter
	client       *client
	field        string
	acknowledged int64
	// doubtful: increments that failed without telling whether they took effect.
	doubtful int64
}

func (c *counter) note(object *unstructured.Unstructured, by string) {
	c.ledger.acknowledge(object, by)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = max(c.version, version(object.GetResourceVersion()))
}

func (c *counter) newest() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// patience is that of a program whose objects have many writers: four here, on a slow machine. client-go's own
// DefaultBackoff gives up after four attempts, moved or not.
var patience = wait.Backoff{Steps: 12, Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: time.Second}

// increment counts up once, as a program that cares for its data does. It tells the ledger what contradicts
// earlier acknowledgements.
func (w *counting) increment(ctx context.Context) {
	began := time.Now()
	err := retry.RetryOnConflict(patience, func() error { return w.try(ctx) })
	if apierrors.IsConflict(err) {
		w.client.recorder.gaveUp(w.client.name, "update", w.of.resource.name, began, err)
	}
}

func (w *counting) try(ctx context.Context) error {
	c := w.of
	objects := c.resource.in(w.client.dynamic)
	newest := c.newest()
	var found *unstructured.Unstructured
	err := w.client.call("get", c.resource.name, func() (err error) {
		found, err = objects.Get(ctx, c.name, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	w.check(found, newest)
	c.resource.set(found, w.field, c.resource.get(found, w.field)+1)
	c.resource.set(found, "count", c.resource.get(found, "count")+1)
	var updated *unstructured.Unstructured
	err = w.client.call("update", c.resource.name, func() (err error) {
		updated, err = objects.Update(ctx, found, metav1.UpdateOptions{})
		return err
	})
	switch {
	case err == nil:
		w.acknowledged++
		c.note(updated, w.field)
	case !apierrors.IsConflict(err):
		w.doubtful++
	}
	return err
}

// check: what was acknowledged before a read was sent must be in what it shows.
func (w *counting) check(found *unstructured.Unstructured, newest uint64) {
	c := w.of
	own := c.resource.get(found, w.field)
	if own < w.acknowledged || own > w.acknowledged+w.doubtful {
		c.ledger.lose(fmt.Sprintf("%s %s.%s is %d, acknowledged %d, doubtful %d", c.resource.name, c.name, w.field, own, w.acknowledged, w.doubtful))
	}
	if at := version(found.GetResourceVersion()); at < newest {
		c.ledger.lose(fmt.Sprintf("%s %s is read at %d after %d was acknowledged", c.resource.name, c.name, at, newest))
	}
}

// conclude compares the counter as it is at the end with what was acknowledged.
func (c *counter) conclude(final *unstructured.Unstructured) {
	var sum int64
	for _, writer := range c.writers {
		writer.check(final, c.newest())
		sum += c.resource.get(final, writer.field)
	}
	if count := c.resource.get(final, "count"); count != sum {
		c.ledger.lose(fmt.Sprintf("%s %s counts %d, its writers %d", c.resource.name, c.name, count, sum))
	}
}

// churn makes, changes and deletes objects, each under a name of its own.
type churn struct {
	client   *client
	resource resource
	ledger   *ledger
	made     int
}

func (c *churn) turn(ctx context.Context) {
	c.made++
	name := "churn-" + strconv.Itoa(c.made)
	objects := c.resource.in(c.client.dynamic)
	var object *unstructured.Unstructured
	err := c.client.call("create", c.resource.name, func() (err error) {
		object, err = objects.Create(ctx, c.resource.object(name, map[string]int64{"count": 1}), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		// It may be there all the same, and is deleted then.
		c.remove(ctx, name, "")
		return
	}
	c.ledger.acknowledge(object, "churn")
	pause(ctx, time.Duration(100+rand.IntN(1500))*time.Millisecond)
	c.resource.set(object, "count", 2)
	_ = c.client.call("update", c.resource.name, func() error {
		updated, err := objects.Update(ctx, object, metav1.UpdateOptions{})
		if err == nil {
			c.ledger.acknowledge(updated, "churn")
		}
		return err
	})
	c.remove(ctx, name, object.GetUID())
}

const removeTries = 20

// remove deletes until it is known that the object is gone.
func (c *churn) remove(ctx context.Context, name string, uid types.UID) {
	c.ledger.doom(name)
	for range removeTries {
		var isGone bool
		err := c.client.call("delete", c.resource.name, func() error {
			err := c.resource.in(c.client.dynamic).Delete(ctx, name, metav1.DeleteOptions{})
			if isGone = apierrors.IsNotFound(err); isGone {
				return nil
			}
			return err
		})
		if err == nil {
			if uid != "" {
				c.ledger.died(uid, name)
			}
			return
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// pause waits, unless the context ends before.
func pause(ctx context.Context, length time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(length):
	}
}
