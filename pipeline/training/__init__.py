"""The stage that trains one learner on what the store holds, with one file for each way of training.

Open ``train.py`` first: it asks the learner of what kind it is and hands it to the runner of that kind.
"""
