package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// clients are all that run.
type clients struct {
	options  options
	recorder *recorder
	base     *rest.Config
	ledgers  map[string]*ledger

	counters   []*counter
	appliers   []*applier
	leases     []*lease
	kubectl    *kubectl
	watched    []*watched
	controller *controller
	provider   *provider
	slices     cache.SharedIndexInformer
	reader     *client

	// stopWriting ends the writers; controllers and informers go on until the end of the program.
	stopWriting context.CancelFunc
	writing     sync.WaitGroup
}

const (
	countersPerResource = 2
	writersPerCounter   = 2
)

func startClients(ctx context.Context, o options) (*clients, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: o.kubeconfig}
	base, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context}).ClientConfig()
	if err != nil {
		return nil, err
	}
	a := &clients{options: o, recorder: newRecorder(), base: base, ledgers: map[string]*ledger{}}
	for _, r := range resources {
		a.ledgers[r.name] = newLedger()
		// Made and deleted before, to see that the API is served.
		a.ledgers[r.name].doom("first")
	}
	if a.reader, err = a.client("reader", a.byID(), false); err != nil {
		return nil, err
	}
	writing, stop := context.WithCancel(ctx)
	a.stopWriting = stop
	for _, start := range []func(context.Context) error{a.makeCounters, a.startInformers, a.startController, a.startProvider} {
		if err := start(ctx); err != nil {
			return nil, err
		}
	}
	for _, start := range []func(context.Context) error{a.startCounting, a.startChurn, a.startAppliers, a.startLeases, a.startKubectl} {
		if err := start(writing); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *clients) byID() string   { return a.base.Host + "/clusters/" + a.options.cluster }
func (a *clients) byPath() string { return a.base.Host + "/clusters/" + a.options.path }

func (a *clients) client(name, host string, isHidden bool) (*client, error) {
	return newClient(a.base, a.recorder, name, host, isHidden)
}

// repeat does something again and again, with a pause, until the context ends.
func (a *clients) repeat(ctx context.Context, every time.Duration, turn func(context.Context)) {
	a.writing.Add(1)
	go func() {
		defer a.writing.Done()
		for ctx.Err() == nil {
			// What is under way is brought to its end, so that every outcome is known.
			turn(context.WithoutCancel(ctx))
			pause(ctx, every)
		}
	}()
}

func (a *clients) makeCounters(ctx context.Context) error {
	for _, r := range resources {
		for i := range countersPerResource {
			c := &counter{resource: r, name: fmt.Sprintf("counter-%d", i), ledger: a.ledgers[r.name]}
			made, err := r.in(a.reader.dynamic).Create(ctx, r.object(c.name, map[string]int64{"count": 0}), metav1.CreateOptions{})
			if err != nil {
				return err
			}
			c.note(made, "reader")
			a.counters = append(a.counters, c)
		}
	}
	return nil
}

func (a *clients) startInformers(ctx context.Context) error {
	for _, host := range []string{a.byID(), a.byPath()} {
		for _, r := range resources {
			name := "by id"
			if host == a.byPath() {
				name = "by path"
			}
			c, err := a.client("informer "+name, host, true)
			if err != nil {
				return err
			}
			w := newWatched(r.name+" "+name, r, c, namespace, a.ledgers[r.name])
			a.watched = append(a.watched, w)
			go w.informer.RunWithContext(ctx)
		}
	}
	return nil
}

// informer returns the one by id.
func (a *clients) informer(resource string) *watched {
	for _, w := range a.watched {
		if w.name == resource+" by id" {
			return w
		}
	}
	panic("no informer for " + resource)
}

func (a *clients) startController(ctx context.Context) error {
	c, err := a.client("controller", a.byPath(), false)
	if err != nil {
		return err
	}
	a.controller = &controller{
		client: c, gadgets: a.informer("gadgets"), mirrors: a.informer("configmaps"), gadget: resources[1], ledgers: a.ledgers,
	}
	return a.controller.start(ctx)
}

func (a *clients) startProvider(ctx context.Context) error {
	a.provider = &provider{
		base: a.base, recorder: a.recorder, widget: resources[2], ledger: a.ledgers["widgets"], endpoints: map[string]*endpoint{},
	}
	var err error
	a.slices, err = a.provider.follow(ctx, a.base.Host+"/clusters/"+a.options.provider, a.options.export)
	return err
}

func (a *clients) startCounting(ctx context.Context) error {
	for i, counter := range a.counters {
		for j := range writersPerCounter {
			host := a.byID()
			if j%2 == 1 {
				host = a.byPath()
			}
			c, err := a.client("writer", host, false)
			if err != nil {
				return err
			}
			w := &counting{of: counter, client: c, field: "w" + strconv.Itoa(j)}
			counter.writers = append(counter.writers, w)
			// Not all at the same time.
			pause(ctx, time.Duration(5*(i+j))*time.Millisecond)
			a.repeat(ctx, a.options.pause, w.increment)
		}
	}
	return nil
}

func (a *clients) startChurn(ctx context.Context) error {
	for _, r := range resources {
		c, err := a.client("churn", a.byID(), false)
		if err != nil {
			return err
		}
		churn := &churn{client: c, resource: r, ledger: a.ledgers[r.name]}
		a.repeat(ctx, a.options.pause, churn.turn)
	}
	return nil
}

func (a *clients) startAppliers(ctx context.Context) error {
	for _, r := range resources {
		for _, manager := range []string{"left", "right"} {
			c, err := a.client("apply", a.byPath(), false)
			if err != nil {
				return err
			}
			applier := &applier{client: c, resource: r, name: "applied", manager: manager, ledger: a.ledgers[r.name]}
			a.appliers = append(a.appliers, applier)
			a.repeat(ctx, 2*a.options.pause, applier.turn)
		}
	}
	return nil
}

func (a *clients) startLeases(ctx context.Context) error {
	for name, pace := range paces {
		l := &lease{Name: name}
		a.leases = append(a.leases, l)
		for _, identity := range []string{"first", "second"} {
			c, err := a.client("elector", a.byID(), true)
			if err != nil {
				return err
			}
			a.writing.Add(1)
			go func() {
				defer a.writing.Done()
				l.stand(ctx, c, identity, pace)
			}()
		}
	}
	return nil
}

func (a *clients) startKubectl(ctx context.Context) error {
	flags := []string{
		"--kubeconfig=" + a.options.kubeconfig, "--context=" + a.options.context, "--server=" + a.byPath(),
		"--cache-dir=" + a.options.scratch, "--namespace=" + namespace,
	}
	a.kubectl = &kubectl{recorder: a.recorder, program: a.options.kubectl, flags: flags, resource: resources[1], ledger: a.ledgers["gadgets"]}
	a.repeat(ctx, a.options.pause, a.kubectl.get)
	a.repeat(ctx, a.options.pause, a.kubectl.apply)
	return nil
}
